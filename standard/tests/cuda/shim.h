// The part of CUDA C++ that generated kernels use, on the processor: blocks run one after another, and the
// threads of a block are fibres that run from barrier to barrier, in one of two orders.
//
// A barrier that some threads of a block do not reach, or a shuffle in which some lanes of a warp do not take
// part, is an error. Shared memory holds garbage when a block starts, so a value that is read before it is
// written shows: in one of the two orders, the thread that should have waited reads too early.
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

// The kernels themselves run once on a few elements, and are not optimised. What they call often is.
#pragma GCC push_options
#pragma GCC optimize("O2")

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
  if (exponent) return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
  float value = (float)fraction * 0x1p-24f;
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
static ucontext_t contexts[MOST];
// Where the scheduler and each thread continue. A jump is much faster than `swapcontext`, which calls the system.
static jmp_buf scheduler, places[MOST];
static bool started[MOST];
static State states[MOST];
static char exchange[MOST][8];
static char* stacks;
static unsigned current, count;
static bool running;
static bool misplaced;
static void (*kernel)(void**);
static void** arguments;
static void forget_copies();

static void wait(State state) {
  if (!running) { misplaced = true; return; }
  states[current] = state;
  if (!_setjmp(places[current])) _longjmp(scheduler, 1);
}
static void begin() {
  kernel(arguments);
  states[current] = DONE;
  _longjmp(scheduler, 1);
}
static void place(unsigned thread) {
  current = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x, 0};
}
// Lets a thread go on until it waits or ends.
static void proceed(unsigned thread) {
  place(thread);
  if (_setjmp(scheduler)) return;
  if (started[thread]) _longjmp(places[thread], 1);
  started[thread] = true;
  setcontext(&contexts[thread]);
}
// Runs a block; returns whether all threads reached every barrier.
static bool block(bool backwards) {
  if (!stacks) stacks = (char*)malloc((size_t)MOST * STACK);
  for (unsigned i = 0; i < count; ++i) {
    states[i] = READY;
    started[i] = false;
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
    contexts[i].uc_stack.ss_size = STACK;
    contexts[i].uc_link = nullptr;
    makecontext(&contexts[i], begin, 0);
  }
  forget_copies();
  running = true;
  for (;;) {
    unsigned done = 0, at_barrier = 0;
    bool moved = false;
    for (unsigned i = 0; i < count; ++i) {
      unsigned thread = backwards ? count - 1 - i : i;
      if (states[thread] != READY) continue;
      moved = true;
      proceed(thread);
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

// Tensor cores. The lanes of a warp see what the others hold between two waits. A copy in the background lands when a
// thread waits for it, and not before, so a missing wait shows.
namespace fibre {
struct Copy { void* to; const void* from; bool inside; unsigned group; };
static std::vector<Copy> copies[MOST];
static unsigned groups[MOST];
static unsigned held[MOST][6];
static const void* rows[MOST];

static void forget_copies() {
  for (unsigned i = 0; i < count; ++i) { copies[i].clear(); groups[i] = 0; }
}
static const void* row_of(unsigned lane) { return rows[current / LANES * LANES + lane]; }
static void read(unsigned (&to)[4], const void* row, bool transposed) {
  unsigned lane = current % LANES;
  rows[current] = row;
  wait(WARP);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned short pair[2];
    for (unsigned j = 0; j < 2; ++j) {
      unsigned y = transposed ? lane % 4 * 2 + j : lane / 4, x = transposed ? lane / 4 : lane % 4 * 2 + j;
      pair[j] = ((const unsigned short*)row_of(i * 8 + y))[x];
    }
    memcpy(&to[i], pair, 4);
  }
  wait(WARP);
}
// The element at an index of the left matrix (`from` 0) or the right one (`from` 4), in registers with `each` elements.
static unsigned element(unsigned outer, unsigned inner, unsigned from, unsigned each) {
  unsigned lane = outer % 8 * 4 + inner % (4 * each) / each;
  unsigned half = inner / (4 * each), place = from ? 4 + half : outer / 8 + half * 2;
  unsigned word = held[current / LANES * LANES + lane][place];
  return each == 1 ? word : word >> 16 * (inner % 2) & 0xffffu;
}
template <unsigned EACH, typename To>
static void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], To to) {
  unsigned lane = current % LANES;
  memcpy(held[current], a, 16);
  memcpy(held[current] + 4, b, 8);
  wait(WARP);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 8 * EACH; ++k) c[i] += to(element(row, k, 0, EACH)) * to(element(column, k, 4, EACH));
  }
  wait(WARP);
}
}  // namespace fibre

static inline void copy_vector(void* to, const void* from, bool inside) {
  unsigned me = fibre::current;
  if ((uintptr_t)to % 16 || (inside && (uintptr_t)from % 16)) fibre::misplaced = true;
  fibre::copies[me].push_back({to, from, inside, fibre::groups[me]});
}
static inline void end_of_copies() { ++fibre::groups[fibre::current]; }
template <int LAST> static inline void wait_for_copies() {
  unsigned me = fibre::current;
  std::vector<fibre::Copy> later;
  for (const fibre::Copy& copy : fibre::copies[me]) {
    if (copy.group + LAST >= fibre::groups[me]) { later.push_back(copy); continue; }
    if (copy.inside) memcpy(copy.to, copy.from, 16); else memset(copy.to, 0, 16);
  }
  fibre::copies[me] = later;
}
static inline void read_matrices(unsigned (&to)[4], const void* row) { fibre::read(to, row, false); }
static inline void read_transposed(unsigned (&to)[4], const void* row) { fibre::read(to, row, true); }
// To the nearest number with ten bits of fraction; ties away from zero.
static inline unsigned to_tf32(float x) { return x - x == 0 ? (bits_of(x) + 0x1000u) & ~0x1fffu : bits_of(x); }
static inline void multiply_half(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  fibre::multiply<2>(c, a, b, [](unsigned bits) { return float_of_half((unsigned short)bits); });
}
static inline void multiply_brain(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  fibre::multiply<2>(c, a, b, [](unsigned bits) { return __uint_as_float(bits << 16); });
}
static inline void multiply_single(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  // The device ignores the low bits of what it multiplies.
  fibre::multiply<1>(c, a, b, [](unsigned bits) { return __uint_as_float(bits & ~0x1fffu); });
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

#pragma GCC pop_options
