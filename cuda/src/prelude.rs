//! Text that kernels share: 16-bit element types, vectors, integer arithmetic that agrees with the reference, and
//! reductions across threads. A module contains only the parts that its kernels use.
//!
//! Conversions of 16-bit floats are single instructions of the device, and so are the functions of tensor cores, which a
//! warp calls together. Other compilers must provide functions with
//! these names; everything else is the same text for them.

/// All parts with their names, in the order of modules: later parts use earlier ones.
pub(super) const PARTS: &[(&str, &str)] = &[
    (
        "half",
        r#"#ifdef __CUDACC_RTC__
__device__ __forceinline__ float float_of_half(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ __forceinline__ unsigned short half_of_float(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif
struct Half { unsigned short bits; };
__device__ __forceinline__ float widen(Half x) { return float_of_half(x.bits); }
__device__ __forceinline__ Half to_half(float x) { return Half{half_of_float(x)}; }
"#,
    ),
    (
        "brain",
        r#"#ifdef __CUDACC_RTC__
__device__ __forceinline__ unsigned short brain_of_float(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
#endif
struct Brain { unsigned short bits; };
__device__ __forceinline__ float widen(Brain x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ __forceinline__ Brain to_brain(float x) { return Brain{brain_of_float(x)}; }
"#,
    ),
    (
        "pack",
        r"template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T of[N]; };
template <int N, typename T> __device__ __forceinline__ Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <typename T, int N> __device__ __forceinline__ void store(T* to, Pack<T, N> x) {
  *reinterpret_cast<Pack<T, N>*>(to) = x;
}
",
    ),
    (
        "tensor",
        r#"#ifdef __CUDACC_RTC__
__device__ __forceinline__ unsigned shared_address(const void* x) {
  unsigned y;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(y) : "l"(x));
  return y;
}
// Copies 16 bytes to shared memory in the background, or zeros if `inside` is false.
__device__ __forceinline__ void copy_vector(void* to, const void* from, bool inside) {
  const unsigned bytes = inside ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
// Closes the group of the copies since the last call.
__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of this thread but the last ones.
template <int LAST> __device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LAST) : "memory");
}
// Reads four matrices of 8 by 8 elements of 16 bits; the lanes have the addresses of their 32 rows.
__device__ __forceinline__ void read_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void read_transposed(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ unsigned to_tf32(float x) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ void multiply_half(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply_brain(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply_single(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
"#,
    ),
    (
        "pick",
        r"__device__ __forceinline__ long long pick(long long at, long long size) {
  if (at < 0) at += size;
  return at < 0 ? 0 : at < size ? at : size - 1;
}
",
    ),
    (
        "modulo",
        r"__device__ __forceinline__ float modulo(float a, float b) {
  const float rest = fmodf(a, b);
  return rest == 0.0f ? copysignf(0.0f, b) : (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
__device__ __forceinline__ double modulo(double a, double b) {
  const double rest = fmod(a, b);
  return rest == 0.0 ? copysign(0.0, b) : (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}
",
    ),
    (
        "saturate",
        r"template <typename T> __device__ __forceinline__ T to_integer(double x, double least, double most) {
  return x != x ? (T)0 : (T)(x < least ? least : x > most ? most : x);
}
__device__ __forceinline__ long long to_long(double x) {
  if (x != x) return 0;
  if (x >= 9223372036854775808.0) return 9223372036854775807ll;
  return x <= -9223372036854775808.0 ? -9223372036854775807ll - 1ll : (long long)x;
}
",
    ),
    (
        "integer",
        r"template <typename T> __device__ __forceinline__ T divide(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return sizeof(T) == 8 && a == (T)(1ull << 63) ? (T)0 : (T)(0ull - (unsigned long long)a);
  return a / b;
}
template <typename T> __device__ __forceinline__ T remainder_c(T a, T b) {
  return b == 0 || b == -1 ? (T)0 : (T)(a % b);
}
template <typename T> __device__ __forceinline__ T remainder_floor(T a, T b) {
  T r = remainder_c(a, b);
  return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}
template <typename T> __device__ __forceinline__ T power(T base, T exponent) {
  if (exponent < 0) return base == 1 ? (T)1 : base == (T)-1 ? (exponent % 2 == 0 ? (T)1 : (T)-1) : (T)0;
  unsigned long long result = 1ull, square = (unsigned long long)(long long)base;
  for (unsigned long long rest = (unsigned long long)exponent; rest > 0ull; rest >>= 1) {
    if (rest & 1ull) result *= square;
    square *= square;
  }
  return (T)result;
}
",
    ),
    (
        "bits",
        r"template <typename T> __device__ __forceinline__ T shift_left(T x, T places) {
  return places < 0 || places >= (T)(8 * sizeof(T)) ? (T)0 : (T)((unsigned long long)x << places);
}
template <typename T> __device__ __forceinline__ T shift_right(T x, T places) {
  return places < 0 || places >= (T)(8 * sizeof(T)) ? (T)(x < 0 ? -1 : 0) : (T)(x >> places);
}
",
    ),
    (
        "combine",
        r"__device__ __forceinline__ float smaller(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ double smaller(double a, double b) { return fmin(a, b); }
__device__ __forceinline__ int smaller(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ long long smaller(long long a, long long b) { return a < b ? a : b; }
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ int larger(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ long long larger(long long a, long long b) { return a > b ? a : b; }
__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ double plus(double a, double b) { return a + b; }
__device__ __forceinline__ int plus(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ long long plus(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}
__device__ __forceinline__ float times(float a, float b) { return a * b; }
__device__ __forceinline__ double times(double a, double b) { return a * b; }
__device__ __forceinline__ int times(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long times(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}
struct Sum { template <typename T> __device__ static T of(T a, T b) { return plus(a, b); } };
struct Product { template <typename T> __device__ static T of(T a, T b) { return times(a, b); } };
struct Least { template <typename T> __device__ static T of(T a, T b) { return smaller(a, b); } };
struct Most { template <typename T> __device__ static T of(T a, T b) { return larger(a, b); } };
",
    ),
    (
        "across",
        r"template <typename Op, typename T> __device__ __forceinline__ T across_warp(T x) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes >>= 1) x = Op::of(x, __shfl_xor_sync(0xffffffffu, x, lanes));
  return x;
}
template <typename Op, int WARPS, typename T> __device__ __forceinline__ T across_block(T x, T* shared) {
  x = across_warp<Op>(x);
  if ((threadIdx.x & 31u) == 0u) shared[threadIdx.x >> 5] = x;
  __syncthreads();
  T all = shared[0];
#pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) all = Op::of(all, shared[warp]);
  __syncthreads();
  return all;
}
",
    ),
];

/// Returns the parts whose names `needs` accepts, in order.
pub(super) fn text<'a>(needs: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'static str> + 'a {
    PARTS.iter().filter(move |(name, _)| needs(name)).map(|(_, text)| *text)
}
