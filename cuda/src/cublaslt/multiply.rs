//! A matrix product that is ready to be queued: descriptors, the algorithm, and addresses.

use super::calls::Calls;
use super::opened;
use super::problem::{Function, Problem};
use crate::calls::Status;
use crate::command::{Buffers, Descriptor, Queued, Scale};
use crate::driver::{Context, Stream};
use crate::shared::Shared;
use cudarc::cublaslt::sys;
use cudarc::driver::sys::CUdeviceptr;
use ovolo::op::{ALIGN, Call};
use ovolo::tensor::DType;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, PoisonError};

const NOT_SUPPORTED: u32 = sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED as u32;

impl Calls {
    /// Returns an error unless the status is success. The error has the library's name for the status, and says what
    /// the user can do.
    fn check(&self, call: &str, status: Status) -> Result<(), String> {
        const NOT_INITIALIZED: u32 = sys::cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED as u32;
        const ALLOC_FAILED: u32 = sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED as u32;
        const ARCH_MISMATCH: u32 = sys::cublasStatus_t::CUBLAS_STATUS_ARCH_MISMATCH as u32;
        const EXECUTION_FAILED: u32 = sys::cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED as u32;
        let remedy = match status.0 {
            0 => return Ok(()),
            NOT_INITIALIZED | ALLOC_FAILED => "end other programs that use the device's memory",
            NOT_SUPPORTED | ARCH_MISMATCH => {
                "`ovolo tune` finds algorithms that run on this device; or remove `cublaslt` from the backends of the \
                 pipeline, and generated kernels run instead"
            }
            EXECUTION_FAILED => "run `compute-sanitizer ovolo run …` to find the faulty kernel",
            _ => "install another version of the library; `ovolo doctor` says which one was found",
        };
        // SAFETY: for every number the library returns null or a string with static lifetime.
        let name = unsafe { status.named((self.cublasLtGetStatusName)(status)) };
        Err(format!("{call}: {name}; {remedy}"))
    }
}

/// The library, opened for the device's context. A process has one handle, which threads use one after another.
pub(crate) struct Handle {
    calls: &'static Calls,
    raw: sys::cublasLtHandle_t,
    turn: Mutex<()>,
}

// SAFETY: any thread may use the handle.
unsafe impl Send for Handle {}
// SAFETY: `with` lets one thread at a time use it.
unsafe impl Sync for Handle {}

impl Handle {
    /// Returns the handle, and opens the library if this is the first call. The device's context is then current on
    /// this thread.
    ///
    /// # Errors
    /// If the library is absent or reports an error.
    pub(crate) fn shared() -> Result<&'static Self, String> {
        static SHARED: Shared<Handle> = Shared::new();
        Context::shared()?;
        SHARED.get(|| {
            let found = opened().map_err(|why| format!("the plan takes cuBLASLt, which is {why}"))?;
            let calls = &found.calls;
            let mut raw = ptr::null_mut();
            // SAFETY: the library is open, and writes a handle.
            calls.check("cublasLtCreate", unsafe { (calls.cublasLtCreate)(&raw mut raw) })?;
            Ok(Self { calls, raw, turn: Mutex::new(()) })
        })
    }

    /// Lets the calling thread use the library's handle; others wait meanwhile.
    fn with<T>(&self, call: impl FnOnce(sys::cublasLtHandle_t) -> T) -> T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        call(self.raw)
    }
}

type Matrix = Descriptor<sys::cublasLtMatrixLayout_t>;
type Operation = Descriptor<sys::cublasLtMatmulDesc_t>;
type Preference = Descriptor<sys::cublasLtMatmulPreference_t>;

/// Sets an attribute of a descriptor to a number or an address.
macro_rules! set {
    ($calls:expr, $function:ident, $descriptor:expr, $attribute:expr, $value:expr) => {{
        let value = $value;
        // SAFETY: the descriptor is valid, and the library copies the value, whose size is passed.
        let status = unsafe {
            ($calls.$function)($descriptor.raw, $attribute, (&raw const value).cast(), size_of_val(&value))
        };
        $calls.check(concat!(stringify!($function), " of ", stringify!($attribute)), status)
    }};
}

/// A matrix product with the addresses of its operands.
pub(crate) struct Multiply {
    operation: Operation,
    /// The descriptors of the right operand, the left operand, the added operand and the result.
    matrices: [Matrix; 4],
    places: [CUdeviceptr; 4],
    /// The factors of the product and of the added operand.
    scales: [Scale; 2],
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: (CUdeviceptr, usize),
    handle: &'static Handle,
}

impl Multiply {
    /// Lets the library choose an algorithm for a call.
    ///
    /// # Errors
    /// If the library has no algorithm or reports an error.
    pub(crate) fn new(handle: &'static Handle, call: &Call<'_>, buffers: &Buffers) -> Result<Self, String> {
        let problem = Problem::new(call)?;
        let Problem { dtype, rows, columns, depth, batch, strides, .. } = problem;
        let calls = handle.calls;
        let operation = operation(calls, &problem, buffers)?;
        let whole = rows * columns;
        let added = problem.residual.map_or(buffers.output, |operand| buffers.inputs[operand]);
        let result = || matrix(calls, dtype, columns, rows, batch, whole);
        let matrices = [
            matrix(calls, dtype, columns, depth, batch, strides[1])?,
            matrix(calls, dtype, depth, rows, batch, strides[0])?,
            result()?,
            result()?,
        ];
        let begin = buffers.workspace();
        let chosen = choose(handle, &operation, &matrices, &problem)?;
        Ok(Self {
            operation,
            matrices,
            places: [buffers.inputs[1], buffers.inputs[0], added, buffers.output],
            scales: [1.0, if problem.residual.is_some() { 1.0 } else { 0.0 }]
                .map(|one| Scale::new(dtype, one)),
            algorithm: chosen.algorithm,
            workspace: (if chosen.workspace > 0 { begin } else { 0 }, chosen.workspace),
            handle,
        })
    }
}

impl Queued for Multiply {
    fn queue(&mut self, stream: &Stream) -> Result<(), String> {
        let [right, left, added, result] = &self.matrices;
        let at = self.places.map(|place| place as *mut c_void);
        let [alpha, beta] = &self.scales;
        // SAFETY: the descriptors describe the memory at the addresses, which outlives this value; the library chose
        // the algorithm for them, and the scratch memory has the size that it requested.
        let status = self.handle.with(|raw| unsafe {
            (self.handle.calls.cublasLtMatmul)(
                raw,
                self.operation.raw,
                ptr::from_ref(alpha).cast(),
                at[0],
                right.raw,
                at[1],
                left.raw,
                ptr::from_ref(beta).cast(),
                at[2],
                added.raw,
                at[3],
                result.raw,
                &raw const self.algorithm,
                self.workspace.0 as *mut c_void,
                self.workspace.1,
                stream.raw(),
            )
        });
        self.handle.calls.check("cublasLtMatmul", status)
    }
}

fn data_type(dtype: DType) -> Result<sys::cudaDataType_t, String> {
    match dtype {
        DType::F32 => Ok(sys::cudaDataType_t::CUDA_R_32F),
        DType::F16 => Ok(sys::cudaDataType_t::CUDA_R_16F),
        DType::BF16 => Ok(sys::cudaDataType_t::CUDA_R_16BF),
        DType::F64 => Ok(sys::cudaDataType_t::CUDA_R_64F),
        other => Err(format!("the library does not support products of {other}")),
    }
}

/// Describes the computation: the precision and the epilogue.
fn operation(calls: &Calls, problem: &Problem, buffers: &Buffers) -> Result<Operation, String> {
    use sys::cublasLtEpilogue_t as Epilogue;
    use sys::cublasLtMatmulDescAttributes_t as Attribute;
    let (compute, scale) = match problem.dtype {
        DType::F64 => (sys::cublasComputeType_t::CUBLAS_COMPUTE_64F, DType::F64),
        _ if problem.tf32 => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, DType::F32),
        _ => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, DType::F32),
    };
    let mut raw = ptr::null_mut();
    // SAFETY: the library is open, and writes a descriptor.
    let status = unsafe { (calls.cublasLtMatmulDescCreate)(&raw mut raw, compute, data_type(scale)?) };
    calls.check("cublasLtMatmulDescCreate", status)?;
    let operation = Descriptor { raw, free: calls.cublasLtMatmulDescDestroy };
    let epilogue = match (problem.function, problem.bias) {
        (Function::Nothing, None) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
        (Function::Nothing, Some(_)) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
        (Function::Relu, None) => Epilogue::CUBLASLT_EPILOGUE_RELU,
        (Function::Relu, Some(_)) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
        (Function::GeluTanh, None) => Epilogue::CUBLASLT_EPILOGUE_GELU,
        (Function::GeluTanh, Some(_)) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
    };
    set!(
        calls,
        cublasLtMatmulDescSetAttribute,
        operation,
        Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE,
        epilogue
    )?;
    if let Some(bias) = problem.bias {
        let address = buffers.inputs[bias];
        set!(
            calls,
            cublasLtMatmulDescSetAttribute,
            operation,
            Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
            address
        )?;
    }
    Ok(operation)
}

/// Describes a matrix with contiguous columns, and the distance to the next matrix.
fn matrix(
    calls: &Calls,
    dtype: DType,
    rows: usize,
    columns: usize,
    batch: usize,
    stride: usize,
) -> Result<Matrix, String> {
    use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
    let signed = |size: usize| i64::try_from(size).map_err(|error| error.to_string());
    let mut raw = ptr::null_mut();
    let ty = data_type(dtype)?;
    // SAFETY: the library is open, and writes a descriptor.
    let status = unsafe {
        (calls.cublasLtMatrixLayoutCreate)(&raw mut raw, ty, rows as u64, columns as u64, signed(rows)?)
    };
    calls.check("cublasLtMatrixLayoutCreate", status)?;
    let matrix = Descriptor { raw, free: calls.cublasLtMatrixLayoutDestroy };
    if batch > 1 {
        let count = i32::try_from(batch).map_err(|error| error.to_string())?;
        set!(
            calls,
            cublasLtMatrixLayoutSetAttribute,
            matrix,
            Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
            count
        )?;
        let stride = signed(stride)?;
        let attribute = Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
        set!(calls, cublasLtMatrixLayoutSetAttribute, matrix, attribute, stride)?;
    }
    Ok(matrix)
}

/// The library's description of an algorithm. It is the binding's type with a plain number for the status.
#[repr(C)]
#[derive(Clone, Copy)]
struct Heuristic {
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
    state: Status,
    _waves: f32,
    _reserved: [i32; 4],
}

const _: () = {
    use std::mem::offset_of;
    type Bound = sys::cublasLtMatmulHeuristicResult_t;
    assert!(size_of::<Heuristic>() == size_of::<Bound>());
    assert!(offset_of!(Heuristic, workspace) == offset_of!(Bound, workspaceSize));
    assert!(offset_of!(Heuristic, state) == offset_of!(Bound, state));
};

/// Returns the algorithm whose number the problem gives, among those that the library lists.
fn choose(
    handle: &Handle,
    operation: &Operation,
    matrices: &[Matrix; 4],
    problem: &Problem,
) -> Result<Heuristic, String> {
    use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
    let calls = handle.calls;
    let mut raw = ptr::null_mut();
    // SAFETY: the library is open, and writes a descriptor.
    let status = unsafe { (calls.cublasLtMatmulPreferenceCreate)(&raw mut raw) };
    calls.check("cublasLtMatmulPreferenceCreate", status)?;
    let preference: Preference = Descriptor { raw, free: calls.cublasLtMatmulPreferenceDestroy };
    let most = Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    set!(calls, cublasLtMatmulPreferenceSetAttribute, preference, most, problem.workspace)?;
    // This is the guaranteed alignment of a plan's buffers. A buffer with a larger alignment must not change the
    // choice.
    let least = u32::try_from(ALIGN).unwrap_or(1);
    for attribute in [
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    ] {
        set!(calls, cublasLtMatmulPreferenceSetAttribute, preference, attribute, least)?;
    }
    let wanted = problem.algorithm + 1;
    let mut results: Vec<MaybeUninit<Heuristic>> = vec![MaybeUninit::uninit(); wanted];
    let mut count = 0;
    let [right, left, added, result] = matrices;
    // SAFETY: all descriptors are valid, and there is room for the requested number of results.
    let status = handle.with(|raw| unsafe {
        (calls.cublasLtMatmulAlgoGetHeuristic)(
            raw,
            operation.raw,
            right.raw,
            left.raw,
            added.raw,
            result.raw,
            preference.raw,
            i32::try_from(wanted).unwrap_or(i32::MAX),
            results.as_mut_ptr().cast(),
            &raw mut count,
        )
    });
    // If there is no algorithm, some versions of the library return this error and others do not.
    if status.0 != NOT_SUPPORTED {
        calls.check("cublasLtMatmulAlgoGetHeuristic", status)?;
    }
    let count = usize::try_from(count).unwrap_or(0);
    if status.0 == NOT_SUPPORTED || count < wanted {
        return Err(format!(
            "cuBLASLt has {count} algorithm(s) for this product with at most {} bytes of scratch memory, but number \
             {} is requested: `ovolo tune` finds the existing ones",
            problem.workspace, problem.algorithm
        ));
    }
    // SAFETY: the library has written as many results as it counts.
    let chosen = unsafe { results[problem.algorithm].assume_init() };
    calls.check("cublasLtMatmulAlgoGetHeuristic", chosen.state)?;
    if chosen.workspace > problem.workspace {
        return Err(format!(
            "the algorithm of cuBLASLt needs {} bytes of scratch memory, but may use only {}",
            chosen.workspace, problem.workspace
        ));
    }
    Ok(chosen)
}
