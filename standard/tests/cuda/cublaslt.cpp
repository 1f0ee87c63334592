// The entry points of cuBLASLt that ovolo uses, computed on the processor; it works with the stand-in for the
// driver.
//
// The description of each call's operands is checked against the real memory: types, sizes, leading
// dimensions, strides, alignment, scratch, and the algorithm, which must have been returned for the same
// product. A product runs when its stream runs.
#include "library.h"
#include <algorithm>

enum Status { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Compute { COMPUTE_32F = 68, COMPUTE_TF32 = 77, COMPUTE_64F = 70 };
enum Epilogue { DEFAULT = 1, RELU = 2, BIAS = 4, GELU = 32 };

static std::recursive_mutex lock;
typedef std::lock_guard<std::recursive_mutex> Guard;
// The number of algorithms for each product, and the microseconds that each takes.
static const int ALGORITHMS = 3;
static int delays[ALGORITHMS];

struct Handle { int magic = 1; };
struct Operation { int compute, scale, epilogue = DEFAULT; uint64_t bias = 0; };
struct Layout { int type; uint64_t rows, columns; int64_t leading; int batch = 1; int64_t stride = 0; };
struct Preference { uint64_t workspace = 0; uint32_t align[4] = {256, 256, 256, 256}; };
struct Algorithm { uint64_t data[8]; };
struct Heuristic { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static std::set<const void*> there;

template <class T> static int make(T** out, T* made, const char* what) {
  there.insert(made);
  standin_count(what, 1);
  *out = made;
  return SUCCESS;
}
template <class T> static int drop(T* one, const char* what) {
  if (!there.erase(one)) return INVALID_VALUE;
  standin_count(what, -1);
  delete one;
  return SUCCESS;
}
#define BEGIN Guard guard(lock); if (int code = standin_begin(__func__)) return code

// Tests also compile other versions.
#ifndef VERSION
#define VERSION 120904
#endif
EXPORT size_t cublasLtGetVersion() { return VERSION; }
EXPORT const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return nullptr;
  }
}
EXPORT int cublasLtCreate(Handle** handle) {
  BEGIN;
  static int handles;
  if (++handles > 1) fault("a process has a second handle of cuBLASLt");
  there.insert(*handle = new Handle);
  return SUCCESS;
}
EXPORT int cublasLtMatmulDescCreate(Operation** operation, int compute, int scale) {
  Guard guard(lock);
  bool fits = compute == COMPUTE_64F ? scale == F64 : (compute == COMPUTE_32F || compute == COMPUTE_TF32) && scale == F32;
  if (!fits) return INVALID_VALUE;
  return make(operation, new Operation{compute, scale}, "cublaslt operation");
}
EXPORT int cublasLtMatmulDescDestroy(Operation* operation) { Guard guard(lock); return drop(operation, "cublaslt operation"); }
EXPORT int cublasLtMatmulDescSetAttribute(Operation* operation, int attribute, const void* value, size_t bytes) {
  Guard guard(lock);
  if (!there.count(operation)) return INVALID_VALUE;
  if (attribute == 7 && bytes == 4) memcpy(&operation->epilogue, value, 4);
  else if (attribute == 8 && bytes == 8) memcpy(&operation->bias, value, 8);
  else return INVALID_VALUE;
  return SUCCESS;
}
EXPORT int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  Guard guard(lock);
  if (!size_of(type) || !rows || !columns || leading < (int64_t)rows) return INVALID_VALUE;
  return make(layout, new Layout{type, rows, columns, leading}, "cublaslt layout");
}
EXPORT int cublasLtMatrixLayoutDestroy(Layout* layout) { Guard guard(lock); return drop(layout, "cublaslt layout"); }
EXPORT int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t bytes) {
  Guard guard(lock);
  if (!there.count(layout)) return INVALID_VALUE;
  if (attribute == 5 && bytes == 4) memcpy(&layout->batch, value, 4);
  else if (attribute == 6 && bytes == 8) memcpy(&layout->stride, value, 8);
  else return INVALID_VALUE;
  return SUCCESS;
}
EXPORT int cublasLtMatmulPreferenceCreate(Preference** preference) {
  Guard guard(lock);
  return make(preference, new Preference, "cublaslt preference");
}
EXPORT int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  Guard guard(lock);
  return drop(preference, "cublaslt preference");
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t bytes) {
  Guard guard(lock);
  if (!there.count(preference)) return INVALID_VALUE;
  if (attribute == 1 && bytes == 8) memcpy(&preference->workspace, value, 8);
  else if (attribute >= 5 && attribute <= 8 && bytes == 4) memcpy(&preference->align[attribute - 5], value, 4);
  else return INVALID_VALUE;
  return SUCCESS;
}

// Identifies the product by one number.
static uint64_t print_of(const Operation& operation, const Layout* const* layouts) {
  uint64_t print = 1469598103934665603ull;
  auto mix = [&](uint64_t value) { print = (print ^ value) * 1099511628211ull; };
  mix(operation.compute); mix(operation.epilogue);
  for (int i = 0; i < 4; ++i) {
    mix(layouts[i]->type); mix(layouts[i]->rows); mix(layouts[i]->columns);
    mix(layouts[i]->leading); mix(layouts[i]->batch); mix(layouts[i]->stride);
  }
  return print;
}
// Whether the operands form a product.
static int fits(const Operation& operation, const Layout* const* layouts) {
  const Layout &a = *layouts[0], &b = *layouts[1], &c = *layouts[2], &d = *layouts[3];
  if (a.rows != d.rows || b.columns != d.columns || a.columns != b.rows) return INVALID_VALUE;
  if (c.rows != d.rows || c.columns != d.columns || c.batch != d.batch) return INVALID_VALUE;
  if (a.batch != d.batch || b.batch != d.batch) return INVALID_VALUE;
  if (a.type != d.type || b.type != d.type || c.type != d.type) return NOT_SUPPORTED;
  if ((operation.compute == COMPUTE_64F) != (d.type == F64)) return NOT_SUPPORTED;
  if (operation.compute == COMPUTE_TF32 && d.type != F32) return NOT_SUPPORTED;
  if (d.type == F64 && operation.epilogue != DEFAULT) return NOT_SUPPORTED;
  if (d.batch > 1 && d.stride < (int64_t)(d.leading * d.columns)) return INVALID_VALUE;
  if (bool(operation.epilogue & BIAS) != bool(operation.bias)) return INVALID_VALUE;
  return SUCCESS;
}
static size_t wanted_by(int algorithm) { return algorithm == 1 ? 1 << 20 : 0; }

EXPORT int cublasLtMatmulAlgoGetHeuristic(Handle* handle, Operation* operation, Layout* a, Layout* b, Layout* c, Layout* d,
                                          Preference* preference, int wanted, Heuristic* results, int* count) {
  BEGIN;
  const void* all[] = {handle, operation, a, b, c, d, preference};
  for (const void* one : all) if (!there.count(one)) return INVALID_VALUE;
  const Layout* layouts[] = {a, b, c, d};
  *count = 0;
  if (int code = fits(*operation, layouts)) return code;
  if (wanted <= 0) return INVALID_VALUE;
  for (uint32_t align : preference->align) if (align > 64) fault("buffers of a plan begin on 64 bytes, and the library is told of more");
  for (int i = 0; i < ALGORITHMS && *count < wanted; ++i) {
    if (wanted_by(i) > preference->workspace) continue;
    Heuristic& result = results[(*count)++];
    memset(&result, 0, sizeof(result));
    result.algorithm.data[0] = print_of(*operation, layouts);
    result.algorithm.data[1] = (uint64_t)i;
    result.workspace = wanted_by(i);
    result.state = standin_begin("cublasLtMatmulHeuristicResult_t");
  }
  return *count ? SUCCESS : NOT_SUPPORTED;
}

static double scale_of(const Operation& operation, const void* at) {
  return operation.scale == F64 ? *(const double*)at : *(const float*)at;
}
// The bytes of a matrix, aligned for the widest access.
static void* reach(const char* what, const void* at, const Layout& layout) {
  size_t elements = (layout.columns - 1) * layout.leading + layout.rows + (layout.batch - 1) * layout.stride;
  void* found = standin_reach((uint64_t)at, elements * size_of(layout.type));
  if (!found) fault(std::string(what) + " of a product is not on the device");
  else if ((uint64_t)at % 16) fault(std::string(what) + " of a product does not begin on 16 bytes");
  return found;
}

EXPORT int cublasLtMatmul(Handle* handle, Operation* operation, const void* alpha, const void* A, Layout* a, const void* B, Layout* b,
                          const void* beta, const void* C, Layout* c, void* D, Layout* d, const Algorithm* algorithm,
                          void* workspace, size_t bytes, void* stream) {
  BEGIN;
  const void* all[] = {handle, operation, a, b, c, d};
  for (const void* one : all) if (!there.count(one)) return INVALID_VALUE;
  const Layout* layouts[] = {a, b, c, d};
  if (int code = fits(*operation, layouts)) return code;
  if (algorithm->data[0] != print_of(*operation, layouts)) { fault("the algorithm is one for another product"); return INVALID_VALUE; }
  int number = (int)algorithm->data[1];
  if (bytes < wanted_by(number)) { fault("a product has less scratch than its algorithm wants"); return INVALID_VALUE; }
  void* scratch = bytes ? standin_reach((uint64_t)workspace, bytes) : nullptr;
  if (bytes && (!scratch || (uint64_t)workspace % 256)) { fault("scratch is not on the device, or does not begin on 256 bytes"); return INVALID_VALUE; }
  void *left = reach("the left operand", A, *a), *right = reach("the right operand", B, *b);
  void *added = reach("what is added", C, *c), *result = reach("the result", D, *d);
  if (!left || !right || !added || !result) return INVALID_VALUE;
  if (result == left || result == right) fault("the result of a product lies on an operand");
  const void* bias = operation->bias ? standin_reach(operation->bias, d->rows * size_of(d->type)) : nullptr;
  if (operation->bias && !bias) { fault("the bias is not on the device"); return INVALID_VALUE; }
  double factor = scale_of(*operation, alpha), share = scale_of(*operation, beta);
  Operation what = *operation;
  Layout la = *a, lb = *b, lc = *c, ld = *d;
  int delay = delays[number];
  return queue_call(stream, [=] {
    if (delay) usleep(delay);
    if (bytes) memset(scratch, 0x5a, bytes);
    int type = ld.type;
    auto operand = [&](double value) { return what.compute == COMPUTE_TF32 ? tf32(value) : value; };
    for (int g = 0; g < ld.batch; ++g) {
      // In the order of the left operand, so that each of its elements is read once for each column.
      std::vector<double> l(la.rows * la.columns), sums(ld.rows);
      for (size_t k = 0; k < la.columns; ++k) for (size_t i = 0; i < la.rows; ++i)
        l[k * la.rows + i] = operand(read_number(type, left, g * la.stride + k * la.leading + i));
      for (size_t j = 0; j < ld.columns; ++j) {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (size_t k = 0; k < la.columns; ++k) {
          double r = operand(read_number(type, right, g * lb.stride + j * lb.leading + k));
          for (size_t i = 0; i < ld.rows; ++i) sums[i] += l[k * la.rows + i] * r;
        }
        for (size_t i = 0; i < ld.rows; ++i) {
          double value = factor * sums[i];
          // A value that is multiplied by zero is not read, because it may be NaN.
          if (share != 0) value += share * read_number(type, added, g * lc.stride + j * lc.leading + i);
          if (what.epilogue & BIAS) value += read_number(type, bias, i);
          if (what.epilogue & RELU) value = value > 0 ? value : value != value ? value : 0;
          if (what.epilogue & GELU) value = 0.5 * value * (1 + std::tanh(std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value)));
          write_number(type, result, g * ld.stride + j * ld.leading + i, value);
        }
      }
    }
  }) ? EXECUTION_FAILED : SUCCESS;
}

// For tests: makes an algorithm slower.
EXPORT int standin_delay(int algorithm, int microseconds) { Guard guard(lock); delays[algorithm] = microseconds; return 0; }
