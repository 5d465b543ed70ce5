package segmenter_test

import (
	"fmt"

	"github.com/assay-ai/assay/segmenter"
)

func ExampleSegment() {
	text := "Sure! Dr. Lee paid $3.50.\n- One item\n- Another"
	for _, span := range segmenter.Segment(text) {
		fmt.Printf("%d-%d %s\n", span.Start, span.End, text[span.Start:span.End])
	}
	// Output:
	// 0-5 Sure!
	// 6-25 Dr. Lee paid $3.50.
	// 26-36 - One item
	// 37-46 - Another
}

func ExampleLimit() {
	text := "a long clause, and another one that ends here"
	count := func(s string) int { return len(s) } // a tokenizer's count in real use
	for _, span := range segmenter.Limit(text, segmenter.Segment(text), 30, count) {
		fmt.Println(text[span.Start:span.End])
	}
	// Output:
	// a long clause, and another one
	// that ends here
}
