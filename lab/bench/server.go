package bench

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"assay/lab/load"
	"assay/queue"
)

// Model is a checkpoint that the servers serve.
type Model struct {
	Name                 string
	Version              string // of the checkpoint; empty if it has none
	Dir                  string
	Shape                Shape
	MaxLength            int // tokens of an utterance
	Violation, Compliant int // indexes of the labels
	Tokenizer            Tokenizer
}

// Server is a reward server to measure.
type Server struct {
	Name       string
	env        string // Python environment; "" for assay
	exports    string // file that python/export_ENV.py writes last; "": the server reads the checkpoint
	calibrates bool   // the export needs sentences
	ready      string // path that answers 200 once the server is ready
	protocols  []protocol
	args       func(at target) []string

	// versions reads the versions of the server's packages from its readiness reply; those of assay are known before.
	versions func(ready []byte) (map[string]string, error)
}

// target specifies where and with which model a server runs.
type target struct {
	model      Model
	threads    int
	port, nats int
	assay      string // binary of assay
	python     string // of the server's environment
	scripts    string // directory of the embedded Python files
	exported   string // directory of the exported model
	scratch    string // directory that is removed when the server has exited
}

// protocol is a way to ask a server for scores.
type protocol struct {
	name  string
	path  string // "": NATS
	codec codec
}

func (f protocol) open(at target, connections int) (load.Transport, error) {
	if f.path != "" {
		return load.NewHTTP(fmt.Sprintf("http://127.0.0.1:%d%s", at.port, f.path), connections), nil
	}
	conn, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", at.nats))
	if err != nil {
		return nil, err
	}
	return load.NATS{Conn: conn, Subject: queue.SubjectScore}, nil
}

// Reference is the server whose ranks the others' are compared with.
const Reference = "transformers-fp32"

// Servers lists all servers that can be measured, in the order in which they run. A name that ends in "-sorted" is that
// server at its best: each request sorted by length.
func Servers() []Server {
	var all []Server
	for _, p := range pythonServers() {
		all = append(all, p, p.sorted())
	}
	all = append(all, infinity("infinity-fp32", "float32"), infinity("infinity-bf16", "bfloat16"))
	for _, precision := range []string{"fp32", "bf16", "int8"} {
		all = append(all, assayServer(precision))
	}
	return all
}

// pythonServers are python/reward_server.py with each of its backends, in the usual way.
func pythonServers() []Server {
	onnx := Server{env: "onnx", exports: "int8.onnx"}
	openvino := Server{env: "openvino", exports: "int8.bin", calibrates: true}
	ctranslate2 := Server{env: "ctranslate2", exports: "head.npz"}
	torch := Server{env: "torch"}
	return []Server{
		rewardServer(torch, "transformers", "fp32"), rewardServer(torch, "transformers", "bf16"),
		rewardServer(onnx, "onnxruntime", "fp32"), rewardServer(onnx, "onnxruntime", "int8"),
		rewardServer(openvino, "openvino", "bf16"), rewardServer(openvino, "openvino", "int8"),
		rewardServer(ctranslate2, "ctranslate2", "int8"),
	}
}

func rewardServer(s Server, name, precision string) Server {
	s.Name, s.ready = name+"-"+precision, "/health"
	s.protocols = []protocol{{"/get_reward", "/get_reward", utteranceCodec{}}}
	s.versions = func(ready []byte) (versions map[string]string, err error) {
		return versions, json.Unmarshal(ready, &versions)
	}
	s.args = func(at target) []string {
		args := []string{
			at.python, filepath.Join(at.scripts, "reward_server.py"), "--backend", s.env, "--model", at.model.Dir, "--precision", precision,
			"--max-length", strconv.Itoa(at.model.MaxLength), "--threads", strconv.Itoa(at.threads), "--port", strconv.Itoa(at.port),
			"--violation", strconv.Itoa(at.model.Violation), "--compliant", strconv.Itoa(at.model.Compliant),
		}
		if s.exports != "" {
			args = append(args, "--exported", at.exported)
		}
		return args
	}
	return s
}

// sorted is python/reward_server.py at its best.
func (s Server) sorted() Server {
	args := s.args
	s.Name += "-sorted"
	s.args = func(at target) []string { return append(args(at), "--sort") }
	return s
}

// infinity batches across requests and sorts by length itself. Current PyTorch no longer has BetterTransformer.
func infinity(name, dtype string) Server {
	return Server{
		Name: name, env: "infinity", ready: "/health",
		protocols: []protocol{{"/classify", "/classify", classifyCodec{}}},
		versions: func([]byte) (map[string]string, error) {
			return map[string]string{
				"infinity-emb": pinned("infinity", "infinity-emb"), "infinity-emb's transformers": pinned("infinity", "transformers"),
			}, nil
		},
		args: func(at target) []string {
			return []string{
				filepath.Join(filepath.Dir(at.python), "infinity_emb"), "v2", "--model-id", at.model.Dir, "--served-model-name", servedName,
				"--engine", "torch", "--device", "cpu", "--dtype", dtype, "--no-bettertransformer",
				"--host", "127.0.0.1", "--port", strconv.Itoa(at.port), "--log-level", "warning",
			}
		},
	}
}

func assayServer(precision string) Server {
	return Server{
		Name: "assay-" + precision, ready: "/readyz",
		protocols: []protocol{
			{"/v1/score", "/v1/score", assayCodec{}},
			{"/get_reward", "/get_reward", queryCodec{}},
			{"NATS", "", assayCodec{}},
		},
		args: func(at target) []string {
			return append(at.serve(), "--model", at.model.Dir, "--precision", precision, "--precision-limit", "1", "--threads", strconv.Itoa(at.threads), "--cache-bytes", "0",
				"--max-responses", "1000000", "--max-instances", "1000000", "--nats-max-requests", "4096", "--request-timeout", "24h")
		},
	}
}

// serve is the command line of assay that serves there, trains nothing and stores data only in the scratch directory.
func (at target) serve() []string {
	local := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	return []string{
		at.assay, "serve", "--no-train", "--data-dir", at.scratch, "--log-format", "json",
		"--listen", local(at.port), "--nats-listen", local(at.nats),
	}
}

// environment sets the number of threads of every library that a server may compute with.
func environment(threads int) []string {
	n := strconv.Itoa(threads)
	return []string{
		"OMP_NUM_THREADS=" + n, "MKL_NUM_THREADS=" + n, "OPENBLAS_NUM_THREADS=" + n,
		"TOKENIZERS_PARALLELISM=true", "RAYON_NUM_THREADS=" + n,
		"HF_HUB_OFFLINE=1", "INFINITY_ANONYMOUS_USAGE_STATS=0", "INFINITY_MAX_CLIENT_BATCH_SIZE=1048576",
	}
}
