package wire_test

import (
	"fmt"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

func ExampleDecodeRequest() {
	_, err := wire.DecodeRequest([]byte(`{"responses":[{"response":"Hi."},{"response":null}]}`), wire.Limits{})
	fmt.Println(err)
	// Output: responses[1].response: must be a string, got null; omit the field when there is no value
}

func ExampleAppendResult() {
	line, err := wire.AppendResult(nil, rewardmodel.Result{ID: "a", Reward: 0.5, Compliant: true, Violation: 0.5, Threshold: 0.5})
	fmt.Println(string(line), err)
	// Output: {"id":"a","reward":0.5,"compliant":true,"violation":0.5,"threshold":0.5,"witness":null,"truncated":false,"empty":false} <nil>
}
