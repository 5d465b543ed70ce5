package assay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	assay "assay/clients/go"
)

// example starts a fake service for the examples.
func example() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/score":
			insult := `{"id":"r2","reward":0.09,"compliant":false,"violation":0.91,"threshold":0.5,` +
				`"witness":{"index":1,"start":11,"end":32,"text":"You are a fool, sir.","violation":0.91},` +
				`"truncated":false,"empty":false}`
			if in := readRequest(r); in.Options["dense"] == "instance" {
				reply(w, 200, answer(insult[:len(insult)-1]+`,"token_rewards":[0.97,-0.88],"token_offsets":[[0,10],[11,32]]}`))
				return
			}
			reply(w, 200, answer(result("r1", "0.97"), insult))
		case "/v1/feedback":
			reply(w, 202, `{"accepted":1,"duplicates":0,"rejected":[]}`)
		case "/v1/models/rollback":
			refuse(w, 409, "no_previous", "")
		case "/v1/live":
			liveService(w, r)
		case "/v1/events":
			_, _ = fmt.Fprint(w, event(1))
		}
	}))
}

func Example() {
	service := example() // stands for a running service, http://127.0.0.1:8080 by default
	defer service.Close()
	client, err := assay.New(service.URL, assay.WithTimeout(30*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	responses := []string{"Drink some water.", "Good idea. You are a fool, sir."}
	results, err := client.ScoreAll(ctx, assay.Texts(responses...), assay.Options{})
	if err != nil {
		log.Fatal(err) // the client never makes up rewards
	}
	for _, r := range results {
		fmt.Printf("%.2f", r.Reward)
		if !r.Compliant {
			fmt.Printf(" because of %q", r.Witness.Text)
		}
		fmt.Println()
	}
	// Output:
	// 0.97
	// 0.09 because of "You are a fool, sir."
}

func ExampleClient_Score_dense() {
	service := example()
	defer service.Close()
	client, err := assay.New(service.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	item := assay.Text("Good idea. You are a fool, sir.")
	item.TokenOffsets = [][2]int{{0, 10}, {11, 32}} // of the policy's tokens, in bytes
	a, err := client.Score(context.Background(), []assay.Item{item}, assay.Options{Dense: assay.DenseInstance})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Results[0].TokenRewards)
	// Output: [0.97 -0.88]
}

func ExampleClient_Feedback() {
	service := example()
	defer service.Close()
	client, err := assay.New(service.URL, assay.WithToken("secret"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	receipt, err := client.Feedback(context.Background(), []assay.FeedbackItem{
		{ResponseID: "r2", Label: assay.LabelViolation, Rater: "ann"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Accepted, "accepted,", len(receipt.Rejected), "rejected")
	// Output: 1 accepted, 0 rejected
}

func ExampleAPIError() {
	service := example()
	defer service.Close()
	client, err := assay.New(service.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.Rollback(context.Background(), "regression on our evaluation set")
	var apiErr *assay.APIError
	if errors.As(err, &apiErr) && errors.Is(err, assay.ErrConflict) {
		fmt.Println(apiErr.Status, apiErr.Code)
	}
	// Output: 409 no_previous
}

func ExampleClient_Events() {
	service := example()
	defer service.Close()
	client, err := assay.New(service.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for e, err := range client.Events(context.Background(), 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Sequence, e.Kind)
		break
	}
	// Output: 1 model.trained
}
