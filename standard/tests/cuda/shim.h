// The part of CUDA C++ that generated kernels use, on the processor: blocks run one after another, and the
// threads of a block are fibres that run from barrier to barrier, in one of two orders.
//
// A barrier that some threads of a block do not reach, or a shuffle in which some lanes of a warp do not take
// part, is an error. Shared memory holds garbage when a block starts, so a value that is read before it is
// written shows: in one of the two orders, the thread that should have waited reads too early.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("ovolo_shared")))

using std::exp; using std::fabs; using std::floor; using std::fmax; using std::fmin; using std::fmod;

struct Place { unsigned x, y, z; };
static Place threadIdx, blockIdx, blockDim, gridDim;

extern "C" char __start_ovolo_shared[] __attribute__((weak));
extern "C" char __stop_ovolo_shared[] __attribute__((weak));

static inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }

static inline unsigned bits_of(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }

static inline float float_of_half(unsigned short half) {
  unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, fraction = half & 1023u;
  if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  float value = exponent ? std::ldexp((float)(fraction | 1024u), (int)exponent - 25) : std::ldexp((float)fraction, -24);
  return sign ? -value : value;
}
static inline unsigned short half_of_float(float x) {
  unsigned short sign = bits_of(x) >> 16 & 0x8000u;
  if (x != x) return sign | 0x7e00u;
  float size = std::fabs(x);
  if (size >= 65520.0f) return sign | 0x7c00u;
  if (size < 6.103515625e-05f) return sign | (unsigned short)std::nearbyint(size * 16777216.0f);
  int exponent;
  std::frexp(size, &exponent);
  // If the fraction rounds up to two, the sum carries into the exponent.
  unsigned fraction = (unsigned)std::nearbyint(std::ldexp(size, 11 - exponent)) - 1024u;
  return sign | (unsigned short)(((unsigned)(exponent + 14) << 10) + fraction);
}
static inline unsigned short brain_of_float(float x) {
  if (x != x) return 0x7fc0u;
  unsigned bits = bits_of(x);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

namespace fibre {
enum State { READY, BLOCK, WARP, DONE };
static const unsigned MOST = 1024, LANES = 32, STACK = 64 << 10;
static ucontext_t scheduler, contexts[MOST];
static State states[MOST];
static char exchange[MOST][8];
static char* stacks;
static unsigned current, count;
static bool running;
static bool misplaced;
static void (*kernel)(void**);
static void** arguments;

static void wait(State state) {
  if (!running) { misplaced = true; return; }
  states[current] = state;
  swapcontext(&contexts[current], &scheduler);
}
static void begin() {
  kernel(arguments);
  states[current] = DONE;
  swapcontext(&contexts[current], &scheduler);
}
static void place(unsigned thread) {
  current = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x, 0};
}
// Runs a block; returns whether all threads reached every barrier.
static bool block(bool backwards) {
  if (!stacks) stacks = (char*)malloc((size_t)MOST * STACK);
  for (unsigned i = 0; i < count; ++i) {
    states[i] = READY;
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
    contexts[i].uc_stack.ss_size = STACK;
    contexts[i].uc_link = nullptr;
    makecontext(&contexts[i], begin, 0);
  }
  running = true;
  for (;;) {
    unsigned done = 0, at_barrier = 0;
    bool moved = false;
    for (unsigned i = 0; i < count; ++i) {
      unsigned thread = backwards ? count - 1 - i : i;
      if (states[thread] != READY) continue;
      moved = true;
      place(thread);
      swapcontext(&scheduler, &contexts[thread]);
    }
    for (unsigned i = 0; i < count; ++i) {
      done += states[i] == DONE;
      at_barrier += states[i] == BLOCK;
    }
    if (done == count) { running = false; return true; }
    if (at_barrier == count) {
      for (unsigned i = 0; i < count; ++i) states[i] = READY;
      continue;
    }
    for (unsigned warp = 0; warp < count; warp += LANES) {
      unsigned together = 0;
      for (unsigned i = warp; i < warp + LANES && i < count; ++i) together += states[i] == WARP;
      if (together != LANES) continue;
      for (unsigned i = warp; i < warp + LANES; ++i) states[i] = READY;
      moved = true;
    }
    if (!moved) { running = false; return false; }
  }
}
}  // namespace fibre

static inline void __syncthreads() { fibre::wait(fibre::BLOCK); }
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  if (mask != 0xffffffffu) fibre::misplaced = true;
  unsigned me = fibre::current;
  memcpy(fibre::exchange[me], &value, sizeof value);
  fibre::wait(fibre::WARP);
  memcpy(&value, fibre::exchange[me ^ (unsigned)lanes], sizeof value);
  fibre::wait(fibre::WARP);
  return value;
}

// Runs a kernel over a grid. Returns 0 on success, or 1 if not all threads reached a barrier.
extern "C" int ovolo_run(void (*kernel)(void**), void** arguments, const unsigned* launch, int waits, int backwards) {
  gridDim = {launch[0], launch[1], 1};
  blockDim = {launch[2], launch[3], 1};
  fibre::kernel = kernel;
  fibre::arguments = arguments;
  fibre::count = blockDim.x * blockDim.y;
  fibre::misplaced = false;
  unsigned blocks = gridDim.x * gridDim.y;
  for (unsigned i = 0; i < blocks; ++i) {
    unsigned at = backwards ? blocks - 1 - i : i;
    blockIdx = {at % gridDim.x, at / gridDim.x, 0};
    if (__start_ovolo_shared) memset(__start_ovolo_shared, 0xff, (size_t)(__stop_ovolo_shared - __start_ovolo_shared));
    if (waits) {
      if (!fibre::block(backwards)) return 1;
      continue;
    }
    for (unsigned j = 0; j < fibre::count; ++j) {
      fibre::place(backwards ? fibre::count - 1 - j : j);
      kernel(arguments);
    }
  }
  return fibre::misplaced;
}
