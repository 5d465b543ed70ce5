package segmenter_test

import (
	"context"
	"fmt"

	"assay/segmenter"
)

func ExampleSegment() {
	text := "Sure! Dr. Lee paid $3.50.\n- One item\n- Another"
	spans, err := segmenter.Segment(context.Background(), text)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, span := range spans {
		fmt.Printf("%d-%d %s\n", span.Start, span.End, text[span.Start:span.End])
	}
	// Output:
	// 0-5 Sure!
	// 6-25 Dr. Lee paid $3.50.
	// 26-36 - One item
	// 37-46 - Another
}

func ExampleStream() {
	ctx := context.Background()
	var s segmenter.Stream
	text := ""
	show := func(piece string, utterances []segmenter.Span, err error) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, u := range utterances {
			fmt.Printf("after %q: %d-%d %s\n", piece, u.Start, u.End, text[u.Start:u.End])
		}
	}
	for _, piece := range []string{"Sure! Dr.", " Lee", " paid $3", ".50. The", " rest"} {
		text += piece
		utterances, err := s.Feed(ctx, piece)
		show(piece, utterances, err)
	}
	utterances, err := s.Close(ctx)
	show("", utterances, err)
	// Output:
	// after "Sure! Dr.": 0-5 Sure!
	// after ".50. The": 6-25 Dr. Lee paid $3.50.
	// after "": 26-34 The rest
}

func ExampleLimit() {
	text := "a long clause, and another one that ends here"
	count := func(s string) (int, error) { return len(s), nil } // a tokenizer's count in real use
	ctx := context.Background()                                 // of the request in real use
	spans, err := segmenter.Segment(ctx, text)
	if err == nil {
		spans, err = segmenter.Limit(ctx, text, spans, 30, count)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, span := range spans {
		fmt.Println(text[span.Start:span.End])
	}
	// Output:
	// a long clause, and another one
	// that ends here
}
