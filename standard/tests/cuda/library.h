// Code shared by the stand-ins for NVIDIA's libraries: numbers of every type, and access to the stand-in for
// the driver, with which they are linked.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" {
int standin_enqueue(void* stream, void (*run)(void*), void (*drop)(void*), void* with);
void* standin_reach(uint64_t address, size_t bytes);
int standin_begin(const char* name);
int standin_count(const char* what, int more);
int standin_fault(const char* what);
}
#define EXPORT extern "C" __attribute__((visibility("default")))

static void fault(const std::string& what) { standin_fault(what.c_str()); }

enum Number { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };
static size_t size_of(int type) { return type == F64 ? 8 : type == F32 ? 4 : type == F16 || type == BF16 ? 2 : 0; }

static double read_number(int type, const void* from, size_t at) {
  if (type == F64) return ((const double*)from)[at];
  if (type == F32) return ((const float*)from)[at];
  uint16_t half = ((const uint16_t*)from)[at];
  if (type == BF16) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
  }
  int exponent = half >> 10 & 31, fraction = half & 1023;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? std::ldexp(fraction | 1024, exponent - 25) : std::ldexp(fraction, -24);
  return half & 0x8000 ? -value : value;
}
// Rounds to a number of bits after the first one, halves to even.
static double rounded(double value, int bits, int least) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  std::frexp(value, &exponent);
  int unit = std::max(exponent - 1 - bits, least);
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}
static double tf32(double value) { return rounded(value, 10, -136); }
static void write_number(int type, void* to, size_t at, double value) {
  if (type == F64) { ((double*)to)[at] = value; return; }
  if (type == F32) { ((float*)to)[at] = (float)value; return; }
  uint16_t bits;
  if (type == BF16) {
    float near = (float)rounded(value, 7, -133);
    uint32_t wide;
    memcpy(&wide, &near, 4);
    bits = std::isnan(value) ? 0x7fc0 : (uint16_t)(wide >> 16);
  } else {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    double near = std::fabs(rounded(value, 10, -24));
    int exponent;
    if (std::isnan(value)) bits = 0x7e00;
    else if (near >= 65520) bits = sign | 0x7c00;
    else if (near < std::ldexp(1, -14)) bits = sign | (uint16_t)std::ldexp(near, 24);
    else {
      std::frexp(near, &exponent);
      bits = sign | (uint16_t)(((exponent + 14) << 10) + ((unsigned)std::ldexp(near, 11 - exponent) - 1024));
    }
  }
  ((uint16_t*)to)[at] = bits;
}

// Queues a call with all its data.
template <class Call> static int queue_call(void* stream, Call call) {
  auto run = [](void* with) { (*(Call*)with)(); };
  auto drop = [](void* with) { delete (Call*)with; };
  return standin_enqueue(stream, run, drop, new Call(std::move(call)));
}
