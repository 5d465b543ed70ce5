package main

const (
	gotchModule  = "github.com/sugarme/gotch"
	gotchVersion = "v0.9.1"
	// gotchSum is the module's checksum; the patches are written against exactly this text.
	gotchSum = "h1:J6JCE1C2AfPmM1xk0p46LdzWtfNvbvZZnWdkj9v54jo="

	torchVersion = "2.15.0"
)

// wheel is one pinned file of the package index; Bytes is its size.
type wheel struct {
	Requirement string // name==version
	File        string
	SHA256      string
	Bytes       int64
}

// The devices that a libtorch can be fetched for.
const (
	cpu  = "cpu"
	cuda = "cuda"
)

// platform is what one architecture downloads for one device.
type platform struct {
	Arch   string // as in the wheels' names
	Device string // cpu or cuda
	Tags   []string
	Wheels []wheel  // the first is torch; the others contain libraries that libtorch_cpu.so names
	CUDA   []wheel  // what libtorch_cuda.so needs in addition
	Static []string // directories of licenses/ for code that libtorch_cpu.so links statically
}

// roots lists the libraries of torch that the device needs. libtorch_cuda.so
// loads the last two by name.
func (p platform) roots() []string {
	if p.Device == cuda {
		return []string{"libtorch_cpu.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so"}
	}
	return []string{"libtorch_cpu.so"}
}

// platforms pins the wheels by GOARCH. The versions of the nvidia wheels are
// those that torch's metadata requires. CUPTI and the CUDA runtime serve only
// torch's profiler on a CPU, but libtorch_cpu.so does not load without them.
var platforms = map[string]platform{
	"amd64": {
		Arch: "x86_64",
		Tags: manylinux("x86_64"),
		Wheels: []wheel{
			{"torch==" + torchVersion, "torch-2.15.0-cp311-cp311-manylinux_2_28_x86_64.whl",
				"48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e", 539136850},
			{"nvidia-cuda-cupti==13.2.86", "nvidia_cuda_cupti-13.2.86-py3-none-manylinux_2_25_x86_64.whl",
				"8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586", 11988600},
			{"nvidia-cuda-runtime==13.2.86", "nvidia_cuda_runtime-13.2.86-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
				"3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0", 2323576},
		},
		CUDA: []wheel{
			{"nvidia-cudnn-cu13==9.26.0.51", "nvidia_cudnn_cu13-9.26.0.51-py3-none-manylinux_2_27_x86_64.whl",
				"9c976d539786698c71d6bcdbe2053b7485fae062ff7e1215d2f2ff67b1a2149a", 519150073},
			{"nvidia-cusparselt-cu13==0.8.1", "nvidia_cusparselt_cu13-0.8.1-py3-none-manylinux2014_x86_64.whl",
				"786ce87568c303fadb5afcc7102d454cd3040d75f6f8626f5db460d1871f4dd0", 170148586},
			{"nvidia-nccl-cu13==2.30.7", "nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_x86_64.whl",
				"cefa7fdb9710efd0f39c5f1be1d61ff6fc9a996c451265bd7fbdcf9455ed4b50", 215965170},
			{"nvidia-nvshmem-cu13==3.7.2", "nvidia_nvshmem_cu13-3.7.2-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
				"b9a4f843c62b5dded8ad33fd6d220e007dcd39f06cee549292f5ba14ce4c235c", 135397797},
			{"nvidia-cublas==13.4.1.3", "nvidia_cublas-13.4.1.3-py3-none-manylinux_2_27_x86_64.whl",
				"a5917cb642cfb07f4a0231ee16aec7e2e0357d8cb8b1b78a0c9c68dba3e6afc7", 404870805},
			{"nvidia-cuda-nvrtc==13.2.86", "nvidia_cuda_nvrtc-13.2.86-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
				"8111c5130e967b78222ea2124145f8efe9ce201b752b2579a2513100a53be1c5", 47018468},
			{"nvidia-cufft==12.2.0.57", "nvidia_cufft-12.2.0.57-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
				"34da27fadf3979b0b042c43823f0530be8408b86df31ee0108e1ca0b621d4ef6", 218258101},
			{"nvidia-cufile==1.17.1.22", "nvidia_cufile-1.17.1.22-py3-none-manylinux_2_27_x86_64.whl",
				"87feaf8c3ad20d3d03a01933181801ff6892bace5c8f0b1e4b48f319d3e62d36", 1387670},
			{"nvidia-cusolver==12.2.0.11", "nvidia_cusolver-12.2.0.11-py3-none-manylinux_2_27_x86_64.whl",
				"fab5778f6769947389a1a6abc07e635576825a08c0ffc68c3ae7f1392c794b42", 227913465},
			{"nvidia-cusparse==12.7.10.12", "nvidia_cusparse-12.7.10.12-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
				"25907c75e4db1581685f06f61cc6cdecc04611765516a52373e0a18ebd69fa00", 150999307},
			{"nvidia-nvtx==13.2.86", "nvidia_nvtx-13.2.86-py3-none-manylinux1_x86_64.manylinux_2_5_x86_64.whl",
				"968ce72baee2a01791c7d3254000eac81f24677b0b91c62d21b449a1f309c245", 153463},
			{"nvidia-nvjitlink==13.5.37", "nvidia_nvjitlink-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
				"280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb", 46642491},
		},
		Static: []string{"intel-mkl"},
	},
	"arm64": {
		Arch: "aarch64",
		Tags: manylinux("aarch64"),
		Wheels: []wheel{
			{"torch==" + torchVersion, "torch-2.15.0-cp311-cp311-manylinux_2_28_aarch64.whl",
				"58ce2ebfb3430941353109a85be63ee8e941da22f13daa2c43344eeb51c81e06", 483605887},
			{"nvidia-cuda-cupti==13.2.86", "nvidia_cuda_cupti-13.2.86-py3-none-manylinux_2_25_aarch64.whl",
				"d9a5c133f73fcb9013f3ada0da6fb54d4117618d81f3f5a0419417ea6ee829d4", 11760263},
			{"nvidia-cuda-runtime==13.2.86", "nvidia_cuda_runtime-13.2.86-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"37844957894bfdecf90243568d21a2cb251b66106915b71459a23c8e6ef2da69", 2341433},
		},
		CUDA: []wheel{
			{"nvidia-cudnn-cu13==9.26.0.51", "nvidia_cudnn_cu13-9.26.0.51-py3-none-manylinux_2_27_aarch64.whl",
				"8e5b4f5eccff721416f70ecf4353172fc4d5cdd8ca869fe6f983a4a5b0147b20", 595329497},
			{"nvidia-cusparselt-cu13==0.8.1", "nvidia_cusparselt_cu13-0.8.1-py3-none-manylinux2014_aarch64.whl",
				"4dca476c50bf4780d46cd0bfbd82e2bc10a08e4fef7950917ce8d7578d22a23f", 221051344},
			{"nvidia-nccl-cu13==2.30.7", "nvidia_nccl_cu13-2.30.7-py3-none-manylinux_2_18_aarch64.whl",
				"ca786ffa5a647c75d4d1f5cc72a6c4f537947e2ba8823d7c8aaf768e7a7b9f77", 215983881},
			{"nvidia-nvshmem-cu13==3.7.2", "nvidia_nvshmem_cu13-3.7.2-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"0e748308b9e0a8a8d81859353f3e6c98fbe85a85f652a915a2ba60149a0bd124", 135174619},
			{"nvidia-cublas==13.4.1.3", "nvidia_cublas-13.4.1.3-py3-none-manylinux_2_27_aarch64.whl",
				"4eb1472bf92b741e7cf24da7978dde251b58ddec2092d9f6a04f3623eb4e9a15", 513048232},
			{"nvidia-cuda-nvrtc==13.2.86", "nvidia_cuda_nvrtc-13.2.86-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"1e5d7b411a2eb83f5c71c98d58133a763fc9fa86a4241ee320c5c4782d9ad1fd", 44755454},
			{"nvidia-cufft==12.2.0.57", "nvidia_cufft-12.2.0.57-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"1ed438568ae1088ba2c25789d10205d4104b8b140b7bd942e39a787947a0fb74", 218244742},
			{"nvidia-cufile==1.17.1.22", "nvidia_cufile-1.17.1.22-py3-none-manylinux_2_27_aarch64.whl",
				"bec33d7f1f12691dce330275246587569c2ed90b1ce43b0f94b3e1ce9268744b", 1226736},
			{"nvidia-cusolver==12.2.0.11", "nvidia_cusolver-12.2.0.11-py3-none-manylinux_2_27_aarch64.whl",
				"8be097fca28de6be0990ab216ee9b804dd51077e1d1d83acf6c9850650bdc64d", 250383075},
			{"nvidia-cusparse==12.7.10.12", "nvidia_cusparse-12.7.10.12-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"597eff2cd83e3ab1d1e3a0dce9c9c879d77cf64ec2659bfdb5af6a5d02e7aaa9", 169043093},
			{"nvidia-nvtx==13.2.86", "nvidia_nvtx-13.2.86-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"1c6ae1be92fba569dd271f7b9b3056f99f5642726dc6c53d1b93ae4110c398fb", 154292},
			{"nvidia-nvjitlink==13.5.37", "nvidia_nvjitlink-13.5.37-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
				"893f6f9a55b2720ed94913b5ba3332e972da8c78dfa2863d0244403dbd528ffc", 45253761},
		},
	},
}

// manylinux lists the platform tags of the pinned wheels.
func manylinux(arch string) (tags []string) {
	for _, version := range []string{"_2_28", "_2_27", "_2_25", "_2_18", "_2_17", "2014", "_2_12", "2010", "_2_5", "1"} {
		tags = append(tags, "manylinux"+version+"_"+arch)
	}
	return tags
}

// knownStubs lists, by libtorch version, the wrappers of gotch whose
// operators its headers no longer declare. assay uses none of them. For any other
// version, compiling finds them (see fitWrappers).
var knownStubs = map[string][]string{
	torchVersion: {
		"atg__cslt_sparse_mm", "atg__scaled_mm", "atg__scaled_mm_out", "atg_align_as", "atg_align_tensors",
		"atg_cholesky", "atg_cholesky_out", "atg_qr", "atg_qr_q",
	},
}
