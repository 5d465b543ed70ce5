package localmodel

import (
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
)

// ItemOf converts the response of a bag to an item to score.
func ItemOf(b bag.Bag) rewardmodel.Item {
	it := rewardmodel.Item{ID: b.ID, Prompt: b.Prompt, Instances: b.Instances}
	for _, m := range b.Messages {
		it.Messages = append(it.Messages, rewardmodel.Message(m))
	}
	if b.Messages == nil && b.Instances == nil {
		it.Response = &b.Response
	}
	return it
}

// BagOf is the inverse of ItemOf; the label of the bag is meaningless.
func BagOf(it rewardmodel.Item) bag.Bag {
	b := bag.Bag{ID: it.ID, Label: bag.Compliant, Prompt: it.Prompt, Instances: it.Instances}
	if it.Response != nil {
		b.Response = *it.Response
	}
	for _, m := range it.Messages {
		b.Messages = append(b.Messages, bag.Message(m))
	}
	return b
}
