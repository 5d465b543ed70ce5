package checkpoint_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"assay/rewardmodel/checkpoint"
)

// A checkpoint is copied tensor by tensor, and a manifest added.
func Example() {
	source, err := checkpoint.Open("testdata/roberta-bf16")
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(source.Config, source.HasClassifier()) {
		tensor, err := source.Tensor(spec.Name)
		if err != nil {
			log.Fatal(err)
		}
		tensors = append(tensors, tensor)
	}

	parent, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "model")
	manifest := checkpoint.Manifest{Version: "copy-1", Threshold: 0.4}
	if err := checkpoint.Write(dir, source.Config, manifest, tensors); err != nil {
		log.Fatal(err)
	}

	model, err := checkpoint.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	bias, err := model.Float32("classifier.out_proj.bias")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(model.Manifest.Version, model.Config.Architecture, model.MaxLength(), len(bias))
	// Output: copy-1 RobertaForSequenceClassification 22 2
}
