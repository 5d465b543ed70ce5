// Package train fits an instance classifier to bags that have only coarse labels. It is the training loop of BFGPU
// (Balanced Fine-Grained PU Learning, Algorithm 1 of the paper) in plain Go: what to train on, with which loss, at
// which learning rate, and how to set the decision threshold. The network, its gradients and its optimizer are behind
// the Learner interface.
//
// A training method is a Method: it plans one epoch as mini-batches with losses on logits or features. Run drives the
// epochs, stores a state to resume from, and fits the thresholds.
package train
