package feedback_test

import (
	"fmt"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

func ExampleDecode() {
	batch, err := feedback.Decode([]byte(`{"batch_id":"monday","items":[
		{"id":"r1","label":"violation","response":"Of course. You fool.","rater":"ann"},
		{"id":"r2","label":"nice","response":"Of course."},
		{"response_id":"01j9","label":"compliant"}]}`), feedback.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range batch.Items {
		fmt.Println(item.Index, item.ID, item.Label, item.HasText())
	}
	for _, r := range batch.Rejected {
		fmt.Println(r.Index, r.ID, r.Code, r.Message)
	}
	// Output:
	// 0 r1 violation true
	// 2 01j9 compliant false
	// 1 r2 invalid label: is "nice"; give "compliant" or "violation"
}

func ExampleDecodeLines() {
	batch, err := feedback.DecodeLines([]byte(`{"id":"r1","label":"violation","response":"You fool."}
{"id":"r2","label":"compliant"`), feedback.Limits{})
	fmt.Println(len(batch.Items), batch.Rejected[0].Message, err)
	// Output: 1 the JSON ends too early, at byte 30; send the whole object <nil>
}

// A store checks each record, and applies it once it is durable.
func ExampleIndex() {
	index := feedback.NewIndex()
	send := func(rater, label string) {
		batch, err := feedback.DecodeLines(fmt.Appendf(nil, `{"id":"r1","label":%q,"response":"Hm.","rater":%q}`, label, rater), feedback.Limits{})
		if err != nil {
			fmt.Println(err)
			return
		}
		record := feedback.Record{Bag: batch.Items[0].Bag}
		verdict, replaces := index.Check(record.Mark(0))
		fmt.Println(rater, label, verdict, replaces)
		if verdict == feedback.Accept {
			index.Apply(record.Mark(index.Last() + 1))
		}
	}
	send("ann", "violation")
	send("ann", "violation")
	send("bob", "compliant")
	for bag := range index.Bags(feedback.Split{Share: 0.2}) {
		fmt.Println("disputed:", bag.Disputed)
	}
	send("ann", "compliant")
	for bag := range index.Bags(feedback.Split{Share: 0.2}) {
		fmt.Println("disputed:", bag.Disputed, "violation:", bag.Violation, "raters:", bag.Raters)
	}
	index.Erase(feedback.HashOf("r1"), index.Last()+1)
	send("ann", "compliant")
	// Output:
	// ann violation accept 0
	// ann violation duplicate 1
	// bob compliant accept 0
	// disputed: true
	// ann compliant accept 1
	// disputed: false violation: false raters: 2
	// ann compliant erased 0
}

// All responses to one prompt are on one side, which is predictable only with the
// salt.
func ExampleSplit() {
	split := feedback.Split{Share: 0.2, Salt: []byte("a secret of the fleet")}
	for _, response := range []string{"Of course.", "You fool."} {
		record := feedback.Record{Bag: bag.Bag{ID: response, Prompt: "Can you help?", Response: response}}
		mark := record.Mark(1)
		fmt.Println(split.HeldOut(mark.ID, mark.Group))
	}
	// Output:
	// false
	// false
}
