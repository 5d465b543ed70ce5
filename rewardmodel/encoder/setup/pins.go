package main

const (
	gotchModule  = "github.com/sugarme/gotch"
	gotchVersion = "v0.9.1"
	// gotchSum is the module's checksum; the patches are written against exactly this text.
	gotchSum = "h1:J6JCE1C2AfPmM1xk0p46LdzWtfNvbvZZnWdkj9v54jo="

	torchVersion = "2.15.0"
)

// wheel is one pinned file of the package index.
type wheel struct {
	Requirement string // name==version
	File        string
	SHA256      string
	Bytes       int64
}

// platform is what one architecture downloads.
type platform struct {
	Arch   string // as in the wheels' names
	Tags   []string
	Wheels []wheel // the first is torch; the others hold libraries that libtorch_cpu.so names
}

// platforms pins the wheels by GOARCH. The versions of the nvidia wheels are
// those that torch's metadata names; their two libraries serve only torch's
// profiler, but libtorch_cpu.so does not load without them.
var platforms = map[string]platform{
	"amd64": {
		Arch: "x86_64",
		Tags: []string{"manylinux_2_28_x86_64", "manylinux_2_25_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"},
		Wheels: []wheel{
			{"torch==" + torchVersion, "torch-2.15.0-cp311-cp311-manylinux_2_28_x86_64.whl",
				"48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e", 539136850},
			{"nvidia-cuda-cupti==13.2.86", "nvidia_cuda_cupti-13.2.86-py3-none-manylinux_2_25_x86_64.whl",
				"8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586", 11988600},
			{"nvidia-cuda-runtime==13.2.86", "nvidia_cuda_runtime-13.2.86-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
				"3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0", 2323576},
		},
	},
	"arm64": {
		Arch: "aarch64",
		Tags: []string{"manylinux_2_28_aarch64", "manylinux_2_25_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"},
		Wheels: []wheel{
			{"torch==" + torchVersion, "torch-2.15.0-cp311-cp311-manylinux_2_28_aarch64.whl",
				"58ce2ebfb3430941353109a85be63ee8e941da22f13daa2c43344eeb51c81e06", 483605887},
			{"nvidia-cuda-cupti==13.2.86", "nvidia_cuda_cupti-13.2.86-py3-none-manylinux_2_25_aarch64.whl",
				"d9a5c133f73fcb9013f3ada0da6fb54d4117618d81f3f5a0419417ea6ee829d4", 11760263},
			{"nvidia-cuda-runtime==13.2.86", "nvidia_cuda_runtime-13.2.86-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"37844957894bfdecf90243568d21a2cb251b66106915b71459a23c8e6ef2da69", 2341433},
		},
	},
}

// knownStubs lists, by libtorch version, the wrappers of gotch that its
// headers no longer have. None is used by assay. Any other version is found
// out by compiling (see fitWrappers).
var knownStubs = map[string][]string{
	torchVersion: {
		"atg__cslt_sparse_mm", "atg__scaled_mm", "atg__scaled_mm_out", "atg_align_as", "atg_align_tensors",
		"atg_cholesky", "atg_cholesky_out", "atg_qr", "atg_qr_q",
	},
}
