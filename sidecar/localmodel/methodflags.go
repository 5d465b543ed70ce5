package localmodel

import "assay/rewardmodel/train"

// AutoThreshold is the rule of the method's paper, or train.FalseAlarms for a model that corrects for the length already.
const AutoThreshold = "auto"

// MethodFlags are the hyperparameters of the training methods. A method ignores those that it does not have.
type MethodFlags struct {
	Weights          string  `default:"${bfgpu_weights}" enum:"batch,paper" help:"Instance weights of BFGPU: softmax over the mini-batch, or within the bag (${enum})."`
	Normaliser       string  `default:"${bfgpu_normaliser}" enum:"sum,count" help:"Normalization of the BFGPU weights: those of a class sum to 1 in a mini-batch, or are divided by twice the number of its instances (${enum})."`
	Loss             string  `default:"${bfgpu_loss}" enum:"cross-entropy,sigmoid" help:"Per-instance loss of BFGPU (${enum}); sigmoid is symmetric, as the theory requires, but can saturate."`
	PULoss           bool    `default:"${bfgpu_pu_loss}" name:"pu-loss" negatable:"" help:"Run the first stage of each BFGPU epoch: the weighted loss over all instances."`
	PseudoLabels     string  `default:"auto" enum:"auto,true,false" help:"Run the second stage of each epoch: train on the pseudo-labels of the witnesses (${enum}); auto: for BFGPU, not for the PU methods."`
	PseudoFrom       string  `default:"after" enum:"during,after" help:"Scores that select the pseudo-labels of BFGPU: recorded during the epoch, or after it (${enum})."`
	LambdaPU         float64 `default:"0" name:"lambda-pu" help:"Coefficient of the weighted BFGPU loss; 0: 1/pi_micro."`
	LambdaPseudo     float64 `default:"0" help:"Coefficient of the BFGPU loss on pseudo-labels; 0: 1."`
	LambdaBag        float64 `default:"${bfgpu_lambda_bag}" help:"Coefficient of the loss of the witness against the label of its response, which BFGPU adds to its first stage; 0: none."`
	LambdaComparison float64 `default:"${lambda_comparison}" help:"Coefficient of the loss that ranks the responses of a comparison; 0: do not train on comparisons."`
	TopK             int     `default:"3" name:"top-k" help:"Number of instances that mil-topk pools."`
	SigmaMicro       float64 `default:"0" help:"Normal instances per anomalous instance in a violating bag; 0: estimate it."`
	SigmaMacro       float64 `default:"0" help:"Compliant bags per violating bag; 0: estimate it."`
	Threshold        string  `default:"auto" enum:"${threshold_kinds}" help:"How to choose the decision threshold (${enum}); auto: as in the paper of the method, or false-alarms if --init has a length slope; false-alarms: from the compliant bags only, for every number of utterances."`
	FalseAlarms      float64 `default:"${false_alarms}" help:"Share of the compliant bags, in (0,0.5), that --threshold false-alarms flags, at every number of utterances; the aspects that count divide it."`
	Fold             float64 `default:"0" help:"Share of the bags to hold out for choosing the threshold; 0: choose it by the training scores."`
}

// Method builds the named method of package train.
func (f MethodFlags) Method(name string) (train.Method, error) {
	return train.NewMethod(name, train.Settings{
		BFGPU: train.BFGPU{
			Weights: train.Weights(f.Weights), Loss: train.LossKind(f.Loss), Normaliser: train.Normaliser(f.Normaliser),
			PULoss: f.PULoss, PseudoLabels: f.PseudoLabels != "false", RecordDuring: f.PseudoFrom == "during",
			LambdaPU: f.LambdaPU, LambdaPseudo: f.LambdaPseudo, LambdaBag: f.LambdaBag,
		},
		PseudoLabels: f.PseudoLabels == "true", SigmaMicro: f.SigmaMicro, TopK: f.TopK,
	})
}

// ThresholdOf is the kind of threshold that --threshold selects, or the default of the method with auto.
func (f MethodFlags) ThresholdOf(m train.Method) train.Threshold {
	if f.Threshold == AutoThreshold {
		return m.Threshold()
	}
	return train.Threshold(f.Threshold)
}
