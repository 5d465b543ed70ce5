package encoder

/*
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stddef.h>

// libtorch's C interface for compiled models (torch/csrc/inductor/aoti_torch/c). It uses the same tensors as gotch. An
// older libtorch, or one without oneDNN, lacks some of these functions; they are then NULL, as before libtorch is loaded.
typedef void *tensor;
static int32_t (*new_tensor_handle)(tensor from, tensor *to);
static int32_t (*call_dispatcher)(const char *op, const char *overload, uint64_t *stack);
static int32_t (*linear_pointwise)(tensor x, tensor weight, tensor *bias, const char *post, const double **args, int64_t arg_count,
	const char **algorithm, tensor *to);

// find_linear looks for them, once libtorch is loaded.
static int find_linear(void) {
	new_tensor_handle = (int32_t (*)(tensor, tensor *))dlsym(RTLD_DEFAULT, "aoti_torch_new_tensor_handle");
	call_dispatcher = (int32_t (*)(const char *, const char *, uint64_t *))dlsym(RTLD_DEFAULT, "aoti_torch_call_dispatcher");
	linear_pointwise = (int32_t (*)(tensor, tensor, tensor *, const char *, const double **, int64_t, const char **, tensor *))
		dlsym(RTLD_DEFAULT, "aoti_torch_cpu__linear_pointwise");
	return new_tensor_handle && call_dispatcher && linear_pointwise;
}

// prepack converts weights [out, in] to oneDNN's layout: op takes them and, optionally, the number or shape of inputs.
static int32_t prepack(const char *op, tensor weight, tensor *to) {
	uint64_t stack[2] = {0, 0}; // the weight, and no information about inputs
	tensor own;
	int32_t failed = new_tensor_handle(weight, &own);
	if (failed) return failed;
	stack[0] = (uint64_t)(uintptr_t)own; // the call takes ownership
	failed = call_dispatcher(op, "", stack);
	*to = (tensor)(uintptr_t)stack[0];
	return failed;
}

static int32_t prepack_floats(tensor weight, tensor *to) { return prepack("mkldnn::_reorder_linear_weight", weight, to); }

// The activation function that is fused into the linear layer.
enum { then_nothing, then_gelu, then_gelu_tanh, then_relu };

static int32_t linear(tensor x, tensor weight, tensor bias, int then, tensor *to) {
	static const char *const post[] = {"none", "gelu", "gelu", "relu"};
	static const char *const algorithms[] = {"", "none", "tanh", ""};
	const char *algorithm = algorithms[then];
	return linear_pointwise(x, weight, &bias, post[then], NULL, 0, &algorithm, to);
}
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/sugarme/gotch/libtch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// findLinear looks for linear layers with weights in oneDNN's layout, and reports whether this libtorch has them. Call it on the
// libtorch thread.
func findLinear() bool { return C.find_linear() != 0 }

// adopt takes ownership of a tensor that a C function returns.
func (s *tensorScope) adopt(op string, f func(to *C.tensor) C.int32_t) *ts.Tensor {
	return s.do(op, func() (*ts.Tensor, error) {
		var to C.tensor
		if code := f(&to); code != 0 {
			return nil, fmt.Errorf("libtorch failed with code %d", code)
		}
		return ts.New(libtch.Ctensor(unsafe.Pointer(to))), nil
	})
}

// prepackFloats converts weights [out, in] to the layout of packedLinear.
func (s *tensorScope) prepackFloats(weight *ts.Tensor) *ts.Tensor {
	return s.adopt("mkldnn::_reorder_linear_weight", func(to *C.tensor) C.int32_t {
		return C.prepack_floats(C.tensor(weight.Ctensor()), to)
	})
}

// packedLinear is a linear layer followed by the activation function, "" for none.
func (s *tensorScope) packedLinear(x, weight, bias *ts.Tensor, activation string) *ts.Tensor {
	then := C.int(C.then_nothing)
	switch activation {
	case checkpoint.GELU:
		then = C.then_gelu
	case checkpoint.GELUTanh:
		then = C.then_gelu_tanh
	case checkpoint.ReLU:
		then = C.then_relu
	}
	return s.adopt("mkldnn::_linear_pointwise", func(to *C.tensor) C.int32_t {
		return C.linear(C.tensor(x.Ctensor()), C.tensor(weight.Ctensor()), C.tensor(bias.Ctensor()), then, to)
	})
}
