//! The backend `cuda`: contracts of generated kernels, and plans on a device. The backends of NVIDIA's libraries are
//! submodules.

mod cublaslt;
mod cudnn;

use super::device::{Architecture, FAMILY};
use super::single_call::SingleCall;
pub use cublaslt::CublasLt;
pub use cudnn::CuDnn;

use super::runtime::Runtime;
use super::transfer::copies;
use super::wanted::DRIVER;
use super::{driver, job, library, nvrtc, product, tf32};
use ovolo::attr::Attrs;
use ovolo::backend::{Backend, BackendError, Call, Contract, Kernel, Loading, Runner, RuntimeLibrary};
use ovolo::error::Source;
use ovolo::op::{Attributes, Form, Layouts, Lowering, OpError, Reference, image as images};
use ovolo::scalar::Function;
use ovolo::tensor::TensorType;

/// The backend `cuda`.
pub struct Cuda;

// SAFETY: the contract and the kernel of a call are derived from the same analysis of it, and kernels access only
// their buffers.
unsafe impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    /// Reports the driver if it has a device.
    fn found(&self) -> Result<String, BackendError> {
        driver::opened()
            .map(|driver| format!("driver {driver}"))
            .map_err(|why| BackendError::absent(DRIVER.title, why))
    }

    fn identity(&self) -> Result<String, BackendError> {
        let driver = driver::identity().map_err(|why| BackendError::absent(DRIVER.title, why))?;
        let compiler = nvrtc::compiler()
            .map_or_else(|_| "no NVRTC".to_owned(), |one| format!("NVRTC {}", one.version()));
        Ok(format!("driver {driver}, {compiler}"))
    }

    fn plans_elsewhere(&self) -> bool {
        true
    }

    fn prices(&self) -> Option<Source> {
        driver::properties().ok().map(|device| device.prices())
    }

    /// Returns the properties of the device, by which kernels are priced.
    fn details(&self) -> Vec<(String, String)> {
        let words = driver::properties().map(|device| device.words()).unwrap_or_default();
        words.into_iter().map(|(word, value)| (word.to_owned(), value)).collect()
    }

    /// Reports the libraries of the other two backends as well, since this one runs their plans.
    fn libraries(&self) -> Vec<RuntimeLibrary> {
        library::libraries()
    }

    fn ops(&self) -> Vec<Lowering> {
        OPS.iter().chain(IMAGE_OPS).chain([&TENSOR]).copied().collect()
    }

    fn function(&self, name: &'static str, function: Function) -> Option<Lowering> {
        Some(Lowering { device: Some(FAMILY), ..Lowering::new(name, function.name(), contract, kernel) })
    }

    fn runner(&self, loading: &Loading<'_>) -> Option<Result<Box<dyn Runner>, BackendError>> {
        let missing = |why: String| {
            BackendError::absent(
                DRIVER.title,
                format!("kernels of `cuda` need an NVIDIA device, but none was found: {why}"),
            )
        };
        let runtime = driver::opened()
            .map_err(missing)
            .and_then(|_| Runtime::new(loading).map_err(super::runtime::failed));
        Some(runtime.map(|runtime| Box::new(runtime) as Box<dyn Runner>))
    }
}

/// Returns the contract of a generated kernel.
fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let named = |name: &str| Contract { implementation: name.to_owned(), ..Contract::default() };
    if copies(call.op.name) {
        return Ok(named("copy"));
    }
    if call.op == "cuda.reshape" || copies_nothing(call) {
        return Ok(Contract { view_of: Some(0), ..named("view") });
    }
    let job = job(call)?;
    let kinds: Vec<&str> =
        job.kernels.iter().map(|kernel| kernel.name.split('_').next().unwrap_or_default()).collect();
    let name = if kinds.is_empty() { "empty".to_owned() } else { kinds.join("+") };
    Ok(Contract { scratch: job.scratch, in_place: job.in_place, ..named(&name) })
}

/// Returns whether a conversion between layouts moves no element, because only axes of size 1 change their places.
fn copies_nothing(call: &Call<'_>) -> bool {
    let (x, y) = (call.inputs.first(), call.output);
    let order = |ty: &TensorType| -> Vec<usize> {
        let mut order = ty.layout.order(ty.shape.rank()).to_vec();
        order.retain(|dim| ty.shape[*dim] != 1);
        order
    };
    let converts = call.op == "cuda.pack" || call.op == "cuda.unpack";
    let whole = |ty: &TensorType| ty.layout.blocks().is_empty();
    converts && x.is_some_and(|x| whole(x) && whole(y) && order(x) == order(y))
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(SingleCall::new(call, &contract(call)?)?))
}

macro_rules! ops {
    ($($op:literal),* $(,)?) => {
        &[$(Lowering { device: Some(FAMILY), ..Lowering::new(concat!("cuda.", $op), $op, contract, kernel) }),*]
    };
}

/// The ops for which kernels are generated, besides elementwise functions.
const OPS: &[Lowering] = ops!(
    "not",
    "isnan",
    "where",
    "cast",
    "map",
    "matmul",
    "conv",
    "softmax",
    "log-softmax",
    "layer-norm",
    "rms-norm",
    "batch-norm",
    "instance-norm",
    "lrn",
    "reduce-sum",
    "reduce-max",
    "reduce-min",
    "reduce-prod",
    "arg-max",
    "arg-min",
    "reshape",
    "transpose",
    "slice",
    "gather",
    "gather-elements",
    "expand",
    "pad",
    "attention",
    "pack",
    "unpack",
    "grad",
    "tree",
    "upload",
    "download",
);

/// Images in the default layout, or with their channels innermost.
const IMAGES: Layouts = Layouts::Forms(&[Form::same("plain"), Form::same("nhwc")]);

const fn image(name: &'static str, logical: &'static str) -> Lowering {
    Lowering { device: Some(FAMILY), layouts: IMAGES, ..Lowering::new(name, logical, contract, kernel) }
}

/// The ops whose kernels also take images with their channels innermost.
const IMAGE_OPS: &[Lowering] = &[
    image("cuda.max-pool", "max-pool"),
    image("cuda.avg-pool", "avg-pool"),
    Lowering { check: Some(images::reduces_pixels), ..image("cuda.reduce-mean", "reduce-mean") },
    Lowering {
        layouts: Layouts::Typed {
            infer: images::concat,
            samples: &[Form::same("plain"), Form::same("nhwc")],
        },
        ..image("cuda.concat", "concat")
    },
    // Each channel has its own filter.
    Lowering {
        layouts: Layouts::Forms(&[Form::new(&["nhwc", "Oihw8o", "plain"], "nhwc")]),
        check: Some(check_depthwise),
        ..image("cuda.conv-depthwise", "conv")
    },
];

/// Products on tensor cores.
const TENSOR: Lowering = Lowering {
    attributes: Attributes::Also(|| vec![tf32::attribute()]),
    check: Some(product::check_tensor),
    reference: Reference::Prepared(tf32::rounded),
    device: Some(FAMILY),
    ..Lowering::new("cuda.matmul-tensor", "matmul", contract_on_tensor_cores, kernel)
};

/// The first architecture whose tensor cores the kernels use.
const TENSOR_CORES: Architecture = Architecture(8, 0);

/// Returns the contract of a kernel for tensor cores, unless the device that is present has none of them.
fn contract_on_tensor_cores(call: &Call<'_>) -> Result<Contract, OpError> {
    match driver::properties() {
        Ok(device) if device.architecture < TENSOR_CORES => Err(OpError::backend(format!(
            "the kernel needs the tensor cores of {TENSOR_CORES}, but {} is {}",
            device.name, device.architecture
        ))),
        _ => contract(call),
    }
}

fn check_depthwise(attrs: &Attrs, types: &[&TensorType], result: &TensorType) -> Result<(), OpError> {
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(0);
    if types[0].shape[1] == groups && result.shape[1] == groups {
        return Ok(());
    }
    Err(OpError::operand(
        0,
        types[0],
        format!(", and there are {groups} groups: each channel must have one filter"),
    ))
}
