// Hides instruction sets of this processor from the programs that are started with this library in LD_PRELOAD;
// `processor.py` compiles it and starts a program so.
//
// OVOLO_BENCH_PROCESSOR is `avx2` (no AVX-512, VNNI and AMX), `avx512` (AVX-512 without VNNI and AMX) or `vnni` (all but AMX).
// All runtimes ask the instruction CPUID which instructions there are. Linux can make it fault, if the processor
// has `cpuid_fault` in /proc/cpuinfo; a handler of that fault answers in its place, without the bits of what is hidden. Only
// programs for 64-bit x86 on Linux. What the C library chose before (its `memcpy`, for example) stays.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012 };

// The levels: each hides what its bit stands for, too.
enum { AMX = 1, VNNI = 2, AVX512 = 4 };

struct hidden {
    uint32_t leaf, subleaf;
    int reg; // 0 to 3: EAX, EBX, ECX, EDX
    uint32_t bits;
    int of;
};

#define BIT(n) (1u << (n))

// Intel, "Architecture Instruction Set Extensions Programming Reference", CPUID.
static const struct hidden HIDDEN[] = {
    // F, DQ, IFMA, PF, ER, CD, BW, VL
    {7, 0, 1, BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31), AVX512},
    // VBMI, VBMI2, BITALG, VPOPCNTDQ
    {7, 0, 2, BIT(1) | BIT(6) | BIT(12) | BIT(14), AVX512},
    {7, 0, 2, BIT(11), VNNI},
    // 4VNNIW, 4FMAPS, VP2INTERSECT, FP16
    {7, 0, 3, BIT(2) | BIT(3) | BIT(8) | BIT(23), AVX512},
    // BF16, TILE, INT8
    {7, 0, 3, BIT(22) | BIT(24) | BIT(25), AMX},
    // AVX-VNNI
    {7, 1, 0, BIT(4), VNNI},
    // BF16, IFMA
    {7, 1, 0, BIT(5) | BIT(23), AVX512},
    // FP16 of AMX
    {7, 1, 0, BIT(21), AMX},
    // AVX-VNNI-INT8, AVX-VNNI-INT16
    {7, 1, 3, BIT(4) | BIT(10), VNNI},
    // AVX-NE-CONVERT, AVX10
    {7, 1, 3, BIT(5) | BIT(19), AVX512},
    // COMPLEX of AMX
    {7, 1, 3, BIT(8), AMX},
};

static int hides;
static struct sigaction before;

static void fault_on_cpuid(int fault) { syscall(SYS_arch_prctl, ARCH_SET_CPUID, !fault); }

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *at = (const unsigned char *)regs[REG_RIP];
    // The kernel gives such a fault no address. Any other one is not ours.
    if (info->si_code != SI_KERNEL || at[0] != 0x0f || at[1] != 0xa2) {
        if (before.sa_flags & SA_SIGINFO) {
            before.sa_sigaction(number, info, context);
        } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
            before.sa_handler(number);
        } else {
            signal(number, SIG_DFL); // The instruction is tried again, and ends the program.
        }
        return;
    }
    uint32_t leaf = (uint32_t)regs[REG_RAX], subleaf = (uint32_t)regs[REG_RCX], out[4];
    fault_on_cpuid(0);
    __asm__ volatile("cpuid"
                     : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3])
                     : "a"(leaf), "c"(subleaf));
    fault_on_cpuid(1);
    for (size_t i = 0; i < sizeof HIDDEN / sizeof *HIDDEN; i++) {
        const struct hidden *one = &HIDDEN[i];
        if (one->leaf == leaf && one->subleaf == subleaf && (one->of & hides)) {
            out[one->reg] &= ~one->bits;
        }
    }
    regs[REG_RAX] = out[0];
    regs[REG_RBX] = out[1];
    regs[REG_RCX] = out[2];
    regs[REG_RDX] = out[3];
    regs[REG_RIP] += 2;
}

static void refuse(const char *why) {
    fprintf(stderr, "processor.so: %s\n", why);
    exit(2);
}

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("OVOLO_BENCH_PROCESSOR");
    if (!name || !strcmp(name, "avx2")) {
        hides = AMX | VNNI | AVX512;
    } else if (!strcmp(name, "avx512")) {
        hides = AMX | VNNI;
    } else if (!strcmp(name, "vnni")) {
        hides = AMX;
    } else {
        refuse("OVOLO_BENCH_PROCESSOR must be avx2, avx512 or vnni");
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(SIGSEGV, &action, &before)) {
        refuse("the handler of the fault cannot be installed");
    }
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0)) {
        refuse("this processor or kernel cannot make CPUID fault (`cpuid_fault` in /proc/cpuinfo)");
    }
}
