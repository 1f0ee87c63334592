// The entry points of cuDNN that ovolo uses, computed on the processor; it works with the stand-in for the
// driver.
//
// The description of each call's operands is checked against the real memory: types, sizes, formats, scratch,
// and whether the library has the algorithm for them according to its documentation. A convolution runs when
// the stream of its handle runs.
#include "library.h"
#include <thread>

enum Status { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum Kind { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 };
enum Format { NCHW = 0, NHWC = 1 };
enum Math { DEFAULT_MATH = 0, TENSOR_OP_MATH = 1, FMA_MATH = 3 };
enum Mode { RELU = 1, IDENTITY = 5 };
enum Algorithm { IMPLICIT_GEMM, IMPLICIT_PRECOMP_GEMM, GEMM, DIRECT, FFT, FFT_TILING, WINOGRAD, WINOGRAD_NONFUSED };

static std::recursive_mutex lock;
typedef std::lock_guard<std::recursive_mutex> Guard;
// The microseconds that each algorithm takes, and from 64 on each engine.
static int delays[128];

struct Handle { void* stream = nullptr; std::thread::id thread; };
struct Tensor { int format = -1, kind = -1; long n = 0, c = 0, h = 0, w = 0; };
struct Window { int pads[2], strides[2], dilations[2], mode = -1, kind = -1, groups = 1, math = DEFAULT_MATH; };
struct Activation { int mode = -1; };
static std::set<const void*> there;

static int number(int kind) { return kind == FLOAT ? F32 : kind == DOUBLE ? F64 : kind == HALF ? F16 : kind == BFLOAT16 ? BF16 : -1; }

template <class T> static int make(T** out, const char* what) {
  Guard guard(lock);
  there.insert(*out = new T());
  standin_count(what, 1);
  return SUCCESS;
}
template <class T> static int drop(T* one, const char* what) {
  Guard guard(lock);
  if (!there.erase(one)) return BAD_PARAM;
  standin_count(what, -1);
  delete one;
  return SUCCESS;
}
#define BEGIN Guard guard(lock); if (int code = standin_begin(__func__)) return code

// Tests also compile older versions, with VERSION and WITHOUT_GRAPHS.
#ifndef VERSION
#define VERSION 92100
#endif
EXPORT size_t cudnnGetVersion() { return VERSION; }
// The version of CUDA that the library is for.
#ifndef CUDA
#define CUDA 12090
#endif
EXPORT size_t cudnnGetCudartVersion() { return CUDA; }
EXPORT const char* cudnnGetErrorString(int status) {
  switch (status) {
    case BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return nullptr;
  }
}
EXPORT int cudnnCreate(Handle** handle) {
  BEGIN;
  static int handles;
  if (++handles > 1) fault("a process has a second handle of cuDNN");
  there.insert(*handle = new Handle);
  return SUCCESS;
}
EXPORT int cudnnSetStream(Handle* handle, void* stream) {
  BEGIN;
  if (!there.count(handle)) return BAD_PARAM;
  handle->stream = stream;
  handle->thread = std::this_thread::get_id();
  return SUCCESS;
}
// Whether the thread that queues has set the stream of the handle.
static bool has_stream(const Handle* handle) {
  if (handle->stream && handle->thread != std::this_thread::get_id()) fault("a thread queues on the stream that another one set");
  return handle->stream;
}
EXPORT int cudnnCreateTensorDescriptor(Tensor** one) { return make(one, "cudnn tensor"); }
EXPORT int cudnnDestroyTensorDescriptor(Tensor* one) { return drop(one, "cudnn tensor"); }
EXPORT int cudnnCreateFilterDescriptor(Tensor** one) { return make(one, "cudnn filter"); }
EXPORT int cudnnDestroyFilterDescriptor(Tensor* one) { return drop(one, "cudnn filter"); }
EXPORT int cudnnCreateConvolutionDescriptor(Window** one) { return make(one, "cudnn convolution"); }
EXPORT int cudnnDestroyConvolutionDescriptor(Window* one) { return drop(one, "cudnn convolution"); }
EXPORT int cudnnCreateActivationDescriptor(Activation** one) { return make(one, "cudnn activation"); }
EXPORT int cudnnDestroyActivationDescriptor(Activation* one) { return drop(one, "cudnn activation"); }

static int set(Tensor* one, int format, int kind, int n, int c, int h, int w) {
  Guard guard(lock);
  if (!there.count(one) || number(kind) < 0 || (format != NCHW && format != NHWC)) return BAD_PARAM;
  if (n <= 0 || c <= 0 || h <= 0 || w <= 0) return BAD_PARAM;
  *one = {format, kind, n, c, h, w};
  return SUCCESS;
}
EXPORT int cudnnSetTensor4dDescriptor(Tensor* one, int format, int kind, int n, int c, int h, int w) {
  return set(one, format, kind, n, c, h, w);
}
EXPORT int cudnnSetFilter4dDescriptor(Tensor* one, int kind, int format, int k, int c, int h, int w) {
  return set(one, format, kind, k, c, h, w);
}
EXPORT int cudnnSetConvolution2dDescriptor(Window* one, int top, int left, int down, int along, int rows, int columns, int mode, int kind) {
  Guard guard(lock);
  if (!there.count(one) || top < 0 || left < 0 || down <= 0 || along <= 0 || rows <= 0 || columns <= 0) return BAD_PARAM;
  if (mode != 1) fault("a convolution whose window is turned around");
  Window set{{top, left}, {down, along}, {rows, columns}, mode, kind, one->groups, one->math};
  *one = set;
  return SUCCESS;
}
EXPORT int cudnnSetConvolutionGroupCount(Window* one, int groups) {
  Guard guard(lock);
  if (!there.count(one) || groups <= 0) return BAD_PARAM;
  one->groups = groups;
  return SUCCESS;
}
EXPORT int cudnnSetConvolutionMathType(Window* one, int math) {
  Guard guard(lock);
  if (!there.count(one) || math < 0 || math > 3) return BAD_PARAM;
  one->math = math;
  return SUCCESS;
}
EXPORT int cudnnSetActivationDescriptor(Activation* one, int mode, int, double) {
  Guard guard(lock);
  if (!there.count(one)) return BAD_PARAM;
  one->mode = mode;
  return SUCCESS;
}

// Whether the operands form a convolution for which the library has the algorithm.
static int fits(const Tensor& x, const Tensor& w, const Window& v, const Tensor& y, int algorithm) {
  const long in[] = {x.h, x.w}, size[] = {w.h, w.w}, out[] = {y.h, y.w};
  for (int axis = 0; axis < 2; ++axis) {
    long reach = (size[axis] - 1) * v.dilations[axis] + 1;
    if (out[axis] != (in[axis] + 2 * v.pads[axis] - reach) / v.strides[axis] + 1) return BAD_PARAM;
  }
  if (x.n != y.n || w.n != y.c || w.c * v.groups != x.c || w.n % v.groups) return BAD_PARAM;
  if (x.kind != y.kind || w.kind != x.kind || x.format != y.format || w.format != x.format) return NOT_SUPPORTED;
  if (v.kind != (x.kind == DOUBLE ? DOUBLE : FLOAT)) return NOT_SUPPORTED;
  bool products = algorithm == IMPLICIT_GEMM || algorithm == IMPLICIT_PRECOMP_GEMM;
  bool dilated = v.dilations[0] != 1 || v.dilations[1] != 1, strided = v.strides[0] != 1 || v.strides[1] != 1;
  if (x.format == NHWC && !products) return NOT_SUPPORTED;
  if (dilated && algorithm != IMPLICIT_GEMM) return NOT_SUPPORTED;
  if (x.kind == BFLOAT16 && !products) return NOT_SUPPORTED;
  bool square = w.h == w.w;
  switch (algorithm) {
    case IMPLICIT_GEMM: case IMPLICIT_PRECOMP_GEMM: case GEMM: return SUCCESS;
    case FFT:
      return strided || x.kind == DOUBLE || x.h + 2 * v.pads[0] > 256 || x.w + 2 * v.pads[1] > 256 || w.h <= v.pads[0] || w.w <= v.pads[1] ? NOT_SUPPORTED : SUCCESS;
    case FFT_TILING: return strided || w.h > 32 || w.w > 32 || w.h <= v.pads[0] || w.w <= v.pads[1] ? NOT_SUPPORTED : SUCCESS;
    case WINOGRAD: return strided || x.kind == DOUBLE || !square || w.h != 3 ? NOT_SUPPORTED : SUCCESS;
    case WINOGRAD_NONFUSED: return strided || x.kind == DOUBLE || !square || (w.h != 3 && w.h != 5) ? NOT_SUPPORTED : SUCCESS;
    default: return NOT_SUPPORTED;
  }
}
static size_t wanted_by(const Tensor& x, const Tensor& w, const Tensor& y, int algorithm) {
  size_t window = (size_t)(w.c * w.h * w.w);
  switch (algorithm) {
    case IMPLICIT_GEMM: return 0;
    case IMPLICIT_PRECOMP_GEMM: return 1000;
    case GEMM: return window * (size_t)(y.h * y.w) * 4;
    default: return (size_t)(x.n * x.c * x.h * x.w + y.n * y.c * y.h * y.w) * 4;
  }
}
EXPORT int cudnnGetConvolutionForwardWorkspaceSize(Handle* handle, Tensor* x, Tensor* w, Window* v, Tensor* y, int algorithm, size_t* bytes) {
  BEGIN;
  const void* all[] = {handle, x, w, v, y};
  for (const void* one : all) if (!there.count(one)) return BAD_PARAM;
  if (int code = fits(*x, *w, *v, *y, algorithm)) return code;
  *bytes = wanted_by(*x, *w, *y, algorithm);
  return SUCCESS;
}

static void* reach(const char* what, const void* at, const Tensor& tensor) {
  size_t elements = (size_t)(tensor.n * tensor.c * tensor.h * tensor.w);
  void* found = standin_reach((uint64_t)at, elements * size_of(number(tensor.kind)));
  if (!found) fault(std::string(what) + " of a convolution is not on the device");
  else if ((uint64_t)at % 16) fault(std::string(what) + " of a convolution does not begin on 16 bytes");
  return found;
}
static size_t place(const Tensor& t, long n, long c, long h, long w) {
  return (size_t)(t.format == NCHW ? ((n * t.c + c) * t.h + h) * t.w + w : ((n * t.h + h) * t.w + w) * t.c + c);
}
static double scale_of(int kind, const void* at) { return kind == DOUBLE ? *(const double*)at : *(const float*)at; }

// A convolution with the steps after it; bias and residual are optional.
static int queue(Handle* handle, const void* X, const Tensor& x, const void* W, const Tensor& w, const Window& v, int algorithm,
                 void* workspace, size_t bytes, const void* Z, double share, const void* B, int mode, void* Y, const Tensor& y) {
  if (int code = fits(x, w, v, y, algorithm)) return code;
  if (!has_stream(handle)) { fault("a convolution on no stream"); return BAD_PARAM; }
  size_t wanted = wanted_by(x, w, y, algorithm);
  if (bytes < wanted) { fault("a convolution has less scratch than its algorithm wants"); return BAD_PARAM; }
  void* scratch = wanted ? standin_reach((uint64_t)workspace, wanted) : nullptr;
  if (wanted && (!scratch || (uint64_t)workspace % 256)) { fault("scratch is not on the device, or does not begin on 256 bytes"); return BAD_PARAM; }
  void *in = reach("the input", X, x), *weights = reach("the weights", W, w), *out = reach("the result", Y, y);
  void* added = share != 0 ? reach("what is added", Z, y) : nullptr;
  const void* bias = B ? standin_reach((uint64_t)B, (size_t)y.c * size_of(number(x.kind))) : nullptr;
  if (!in || !weights || !out || (share != 0 && !added) || (B && !bias)) return BAD_PARAM;
  if (out == in || out == weights) fault("the result of a convolution lies on an operand");
  int delay = delays[algorithm];
  return queue_call(handle->stream, [=] {
    if (delay) usleep(delay);
    if (wanted) memset(scratch, 0x5a, wanted);
    int type = number(x.kind);
    bool rounds = x.kind == FLOAT && v.math != FMA_MATH;
    auto all = [&](const void* from, const Tensor& t) {
      std::vector<double> values((size_t)(t.n * t.c * t.h * t.w));
      for (size_t i = 0; i < values.size(); ++i) { double value = read_number(type, from, i); values[i] = rounds ? tf32(value) : value; }
      return values;
    };
    std::vector<double> xs = all(in, x), ws = all(weights, w);
    long inputs = w.c, outputs = y.c / v.groups;
    for (long n = 0; n < y.n; ++n) for (long o = 0; o < y.c; ++o) for (long h = 0; h < y.h; ++h) for (long q = 0; q < y.w; ++q) {
      double sum = 0;
      for (long c = 0; c < inputs; ++c) for (long r = 0; r < w.h; ++r) {
        long row = h * v.strides[0] + r * v.dilations[0] - v.pads[0];
        if (row < 0 || row >= x.h) continue;
        for (long s = 0; s < w.w; ++s) {
          long column = q * v.strides[1] + s * v.dilations[1] - v.pads[1];
          if (column < 0 || column >= x.w) continue;
          sum += xs[place(x, n, o / outputs * inputs + c, row, column)] * ws[place(w, o, c, r, s)];
        }
      }
      size_t at = place(y, n, o, h, q);
      if (added) sum += share * read_number(type, added, at);
      if (bias) sum += read_number(type, bias, (size_t)o);
      if (mode == RELU && !(sum > 0)) sum = 0;
      write_number(type, out, at, sum);
    }
  }) ? EXECUTION_FAILED : SUCCESS;
}

EXPORT int cudnnConvolutionForward(Handle* handle, const void* alpha, Tensor* x, const void* X, Tensor* w, const void* W, Window* v,
                                   int algorithm, void* workspace, size_t bytes, const void* beta, Tensor* y, void* Y) {
  BEGIN;
  const void* all[] = {handle, x, w, v, y};
  for (const void* one : all) if (!there.count(one)) return BAD_PARAM;
  if (scale_of(x->kind, alpha) != 1 || scale_of(x->kind, beta) != 0) fault("a convolution is scaled");
  return queue(handle, X, *x, W, *w, *v, algorithm, workspace, bytes, nullptr, 0, nullptr, IDENTITY, Y, *y);
}
EXPORT int cudnnConvolutionBiasActivationForward(Handle* handle, const void* alpha, Tensor* x, const void* X, Tensor* w, const void* W,
                                                 Window* v, int algorithm, void* workspace, size_t bytes, const void* share, Tensor* z,
                                                 const void* Z, Tensor* b, const void* B, Activation* activation, Tensor* y, void* Y) {
  BEGIN;
  const void* all[] = {handle, x, w, v, z, b, activation, y};
  for (const void* one : all) if (!there.count(one)) return BAD_PARAM;
  if (scale_of(x->kind, alpha) != 1) fault("a convolution is scaled");
  if (b->n != 1 || b->c != y->c || b->h != 1 || b->w != 1 || b->kind != y->kind) return BAD_PARAM;
  if (z->n != y->n || z->c != y->c || z->h != y->h || z->w != y->w || z->kind != y->kind || z->format != y->format) return BAD_PARAM;
  if (activation->mode != RELU && activation->mode != IDENTITY) return NOT_SUPPORTED;
  if (activation->mode == IDENTITY && algorithm != IMPLICIT_PRECOMP_GEMM) return NOT_SUPPORTED;
  return queue(handle, X, *x, W, *w, *v, algorithm, workspace, bytes, Z, scale_of(x->kind, share), B, activation->mode, Y, *y);
}
EXPORT int cudnnAddTensor(Handle* handle, const void* alpha, Tensor* a, const void* A, const void* beta, Tensor* c, void* C) {
  BEGIN;
  const void* all[] = {handle, a, c};
  for (const void* one : all) if (!there.count(one)) return BAD_PARAM;
  if (a->n != 1 || a->c != c->c || a->h != 1 || a->w != 1 || a->kind != c->kind) return BAD_PARAM;
  double factor = scale_of(a->kind, alpha), share = scale_of(a->kind, beta);
  Tensor from = *a, to = *c;
  void *row = reach("the bias", A, from), *out = reach("the result", C, to);
  if (!row || !out) return BAD_PARAM;
  if (!has_stream(handle)) { fault("a sum on no stream"); return BAD_PARAM; }
  return queue_call(handle->stream, [=] {
    int type = number(to.kind);
    for (long n = 0; n < to.n; ++n) for (long k = 0; k < to.c; ++k) for (long h = 0; h < to.h; ++h) for (long w = 0; w < to.w; ++w) {
      size_t at = place(to, n, k, h, w);
      write_number(type, out, at, factor * read_number(type, row, (size_t)k) + share * read_number(type, out, at));
    }
  }) ? EXECUTION_FAILED : SUCCESS;
}

#ifndef WITHOUT_GRAPHS
#include "cudnn_graph.h"
#endif

// For tests: makes an algorithm slower.
EXPORT int standin_delay(int algorithm, int microseconds) { Guard guard(lock); delays[algorithm] = microseconds; return 0; }
