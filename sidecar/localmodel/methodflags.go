package localmodel

import (
	"fmt"

	"assay/rewardmodel/train"
	"assay/sidecar/cli"
)

// MethodFlags are the choices that the methods of training leave open. Those that a method does not have are ignored.
type MethodFlags struct {
	Weights      string  `default:"${bfgpu_weights}" enum:"batch,paper" help:"BFGPU's weights: softmax over the mini-batch, or within the bag (${enum})."`
	Normaliser   string  `default:"${bfgpu_normaliser}" enum:"sum,count" help:"BFGPU's weights of a class sum to 1 in a mini-batch, or are divided by twice its instances (${enum})."`
	Loss         string  `default:"${bfgpu_loss}" enum:"cross-entropy,sigmoid" help:"BFGPU's loss of an instance; sigmoid is symmetric, as the theory asks (${enum})."`
	PULoss       bool    `default:"${bfgpu_pu_loss}" name:"pu-loss" negatable:"" help:"First stage of each epoch of BFGPU: the weighted loss over all instances."`
	PseudoLabels string  `default:"auto" enum:"auto,true,false" help:"Second stage of each epoch: train on the witnesses found (${enum}); auto: for BFGPU, not for the PU methods."`
	PseudoFrom   string  `default:"after" enum:"during,after" help:"Scores that choose the pseudo labels of BFGPU: recorded during the epoch, or after it (${enum})."`
	LambdaPU     float64 `default:"0" name:"lambda-pu" help:"Factor of BFGPU's weighted loss; 0: 1/pi_micro."`
	LambdaPseudo float64 `default:"0" help:"Factor of BFGPU's loss on pseudo labels; 0: 1."`
	TopK         int     `default:"3" name:"top-k" help:"Instances that mil-topk pools."`
	SigmaMicro   float64 `default:"0" help:"Normal instances for each anomalous one in a violating bag; 0 estimates it."`
	SigmaMacro   float64 `default:"0" help:"Compliant bags for each violating one; 0 estimates it."`
	Threshold    string  `default:"auto" enum:"auto,fixed,one-per-bag,per-bag,quantile,quantile-unlabelled" help:"How the decision threshold is placed (${enum}); auto: as the method's source does."`
	Fold         float64 `default:"0" help:"Share of the bags to place the threshold by instead of training on them; 0: place it by the training scores."`
}

// Method builds the named method.
func (f MethodFlags) Method(name string) (train.Method, error) {
	return train.NewMethod(name, train.Settings{
		BFGPU: train.BFGPU{
			Weights: train.Weights(f.Weights), Loss: train.LossKind(f.Loss), Normaliser: train.Normaliser(f.Normaliser),
			PULoss: f.PULoss, PseudoLabels: f.PseudoLabels != "false", RecordDuring: f.PseudoFrom == "during",
			LambdaPU: f.LambdaPU, LambdaPseudo: f.LambdaPseudo,
		},
		PseudoLabels: f.PseudoLabels == "true", SigmaMicro: f.SigmaMicro, TopK: f.TopK,
	})
}

// ThresholdOf is the kind of threshold that --threshold names, or the method's own with auto.
func (f MethodFlags) ThresholdOf(m train.Method) train.Threshold {
	if f.Threshold == "auto" {
		return m.Threshold()
	}
	return train.Threshold(f.Threshold)
}

// CheckServable returns an error that names --method where a checkpoint of the method could not serve.
func CheckServable(m train.Method) error {
	if train.Servable(m) {
		return nil
	}
	var able []string
	for _, name := range train.Methods() {
		if m, err := train.NewMethod(name, train.Settings{}); err == nil && train.Servable(m) {
			able = append(able, name)
		}
	}
	return cli.Usage(fmt.Errorf("--method: %s judges whole responses or with parameters that a checkpoint does not hold, "+
		"so there would be nothing to serve; use one of %v, or compare methods with assay-lab bench paper", m.Name(), able))
}
