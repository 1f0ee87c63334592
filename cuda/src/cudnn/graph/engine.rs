//! The description of a graph for the library, and the engines that the library lists for it.

use super::descriptor::{AttributeValue, Descriptor, Failure, Library, data_type};
use super::operation::{Function, Graph, GraphValue, Operation, Reduction, ValuePlace};
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
    cudnnBackendNumericalNote_t as Note, cudnnConvolutionMode_t, cudnnNanPropagation_t,
    cudnnPointwiseMode_t as Pointwise, cudnnReduceTensorOp_t as Reduced,
};
use ovolo::tensor::DType;
use std::collections::BTreeSet;

/// The alignment of values' addresses, in bytes.
const ALIGN: i64 = 16;
/// The largest numbers of notes and of settings of an engine that are read.
const NOTES: usize = 32;
const KNOBS: usize = 64;

/// The device on which a graph is to run.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// The device of a handle.
    Handle(sys::cudnnHandle_t),
    /// The description of a device that may be absent. The library can create plans for it but not run them.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests ask the library without a device"))]
    Described(&'a Descriptor),
}

impl Target<'_> {
    /// Sets the attribute of a plan that corresponds to the kind of target.
    pub fn set_plan(self, library: Library, plan: &Descriptor) -> Result<(), Failure> {
        let (handle, described) =
            (Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
        match self {
            Self::Handle(raw) => library.set(plan, handle, AttributeValue::Handle(raw)),
            Self::Described(device) => library.set(plan, described, AttributeValue::Descriptors(&[device])),
        }
    }
}

/// A graph in the library, and the engines that it lists. All descriptors that they refer to are kept.
pub(super) struct Engines {
    /// The engines that compute what the call requires, the best guess first.
    pub list: Vec<Engine>,
    graph: Descriptor,
    _parts: Vec<Descriptor>,
}

/// An engine with its settings.
pub(super) struct Engine {
    config: Descriptor,
    /// The scratch bytes that the engine reports; older versions report none.
    pub workspace: Option<usize>,
}

/// What identifies an engine: its number, and its settings with their numbers.
type Identity = (i64, Vec<(u32, i64)>);

impl Engines {
    /// Describes a graph to the library, and asks for engines.
    ///
    /// # Errors
    /// If the library reports an error.
    pub fn new(target: Target<'_>, library: Library, graph: &Graph) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        for (number, value) in graph.values.iter().enumerate() {
            parts.push(tensor(library, number, value)?);
        }
        let mut operations = Vec::new();
        for one in &graph.operations {
            let (part, operation) = operation(library, &parts, one)?;
            operations.push(operation);
            parts.extend(part);
        }
        let all: Vec<&Descriptor> = operations.iter().collect();
        let told = library.create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        if let Target::Handle(raw) = target {
            library.set(&told, Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, AttributeValue::Handle(raw))?;
        }
        library.set(&told, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, AttributeValue::Descriptors(&all))?;
        library.finish(&told, "a graph of operations")?;
        parts.extend(operations);
        let mut list = Vec::new();
        let mut known: BTreeSet<Identity> = BTreeSet::new();
        for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK, Mode::CUDNN_HEUR_MODE_B] {
            for config in configs(target, library, &told, mode)? {
                let (identity, notes) = describe_engine(library, &config)?;
                if is_allowed(graph, &notes) && known.insert(identity) {
                    list.push(Engine { workspace: reported_scratch(library, &config), config });
                }
            }
        }
        Ok(Self { list, graph: told, _parts: parts })
    }

    /// Finalises the plan of an engine. It does not need the graph and the engines afterwards.
    ///
    /// # Errors
    /// If the engine does not run on this device, or if the library reports another error.
    pub fn plan(&self, target: Target<'_>, library: Library, number: usize) -> Result<Descriptor, Failure> {
        debug_assert!(!self.graph.raw.is_null(), "the graph is there while its plans are finalised");
        let plan = library.create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        target.set_plan(library, &plan)?;
        let config = [&self.list[number].config];
        library.set(
            &plan,
            Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
            AttributeValue::Descriptors(&config),
        )?;
        library.finish(&plan, "the plan of an engine")?;
        Ok(plan)
    }
}

/// Returns whether an engine computes what the call requires: the same result in each run, sums in `f32`, and `f32`
/// products unless TF32 is requested.
fn is_allowed(graph: &Graph, notes: &[u32]) -> bool {
    let has = |note: Note| notes.contains(&(note as u32));
    let rounds = has(Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && graph.single;
    let narrows = has(Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    !has(Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
        && !has(Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
        // TF32 permits rounding of the inputs, but not their conversion to a 16-bit type.
        && !narrows
        && (graph.tf32 || !rounds)
}

/// Returns the engines that the library lists in a mode, with their settings.
fn configs(
    target: Target<'_>,
    library: Library,
    graph: &Descriptor,
    mode: Mode,
) -> Result<Vec<Descriptor>, Failure> {
    let heuristic = library.create(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
    library.set(
        &heuristic,
        Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
        AttributeValue::Descriptors(&[graph]),
    )?;
    let named = AttributeValue::Named(Type::CUDNN_TYPE_HEUR_MODE, mode as u32);
    library.set(&heuristic, Name::CUDNN_ATTR_ENGINEHEUR_MODE, named)?;
    if let Target::Described(device) = target {
        library.set(
            &heuristic,
            Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
            AttributeValue::Descriptors(&[device]),
        )?;
    }
    match library.finish(&heuristic, "a heuristic") {
        // If a mode has no engine, some versions of the library return an error and others do not.
        Err(failure) if failure.unsupported => return Ok(Vec::new()),
        other => other?,
    }
    let results = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
    let count = library.count(&heuristic, results, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
    library.descriptors(&heuristic, results, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count)
}

/// Returns the identity of an engine, and its numerical notes.
fn describe_engine(library: Library, config: &Descriptor) -> Result<(Identity, Vec<u32>), Failure> {
    let engine = library.descriptors(
        config,
        Name::CUDNN_ATTR_ENGINECFG_ENGINE,
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR,
        1,
    )?;
    let Some(engine) = engine.first() else { return Ok(((-1, Vec::new()), Vec::new())) };
    let number: Vec<i64> =
        library.numbers(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, 1)?;
    let notes: Vec<u32> = library.numbers(
        engine,
        Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
        Type::CUDNN_TYPE_NUMERICAL_NOTE,
        NOTES,
    )?;
    let choices = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
    // The library does not tell the number of settings unless there is room for them.
    let knobs = library.descriptors(config, choices, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, KNOBS)?;
    let mut settings = Vec::new();
    for knob in &knobs {
        let name = Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE;
        let kind: Vec<u32> = library.numbers(knob, name, Type::CUDNN_TYPE_KNOB_TYPE, 1)?;
        let name = Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE;
        let value: Vec<i64> = library.numbers(knob, name, Type::CUDNN_TYPE_INT64, 1)?;
        settings.push((kind.first().copied().unwrap_or(0), value.first().copied().unwrap_or(0)));
    }
    Ok(((number.first().copied().unwrap_or(-1), settings), notes))
}

/// Returns the scratch bytes that an engine reports.
fn reported_scratch(library: Library, config: &Descriptor) -> Option<usize> {
    let name = Name::CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE;
    let bytes: Vec<i64> = library.numbers(config, name, Type::CUDNN_TYPE_INT64, 1).ok()?;
    usize::try_from(*bytes.first()?).ok()
}

/// Returns the library's number of a value.
pub(super) fn uid(number: usize) -> i64 {
    i64::try_from(number).map_or(i64::MAX, |number| number + 1)
}

fn whole<const N: usize>(sizes: [usize; N]) -> [i64; N] {
    sizes.map(|size| i64::try_from(size).unwrap_or(i64::MAX))
}

/// Returns an element type as the value of an attribute.
fn type_value(dtype: DType) -> Result<AttributeValue<'static>, Failure> {
    let number = data_type(dtype).map_err(|text| Failure { unsupported: true, text })?;
    Ok(AttributeValue::Named(Type::CUDNN_TYPE_DATA_TYPE, number))
}

fn tensor(library: Library, number: usize, value: &GraphValue) -> Result<Descriptor, Failure> {
    let one = library.create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    library.set(&one, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, AttributeValue::Whole(&[uid(number)]))?;
    library.set(&one, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, type_value(value.dtype)?)?;
    library.set(&one, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, AttributeValue::Whole(&whole(value.sizes)))?;
    library.set(&one, Name::CUDNN_ATTR_TENSOR_STRIDES, AttributeValue::Whole(&whole(value.strides)))?;
    library.set(&one, Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, AttributeValue::Whole(&[ALIGN]))?;
    match value.place {
        ValuePlace::Between => {
            library.set(&one, Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, AttributeValue::Flag(true))?
        }
        ValuePlace::Number(_) => {
            library.set(&one, Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, AttributeValue::Flag(true))?
        }
        ValuePlace::Input(_) | ValuePlace::Output => {}
    }
    library.finish(&one, "a tensor")?;
    Ok(one)
}

/// Describes an operation, and its own parameters if these are a separate descriptor.
fn operation(
    library: Library,
    values: &[Descriptor],
    operation: &Operation,
) -> Result<(Option<Descriptor>, Descriptor), Failure> {
    let link = |one: &Descriptor, name: Name, to: &Descriptor| {
        library.set(one, name, AttributeValue::Descriptors(&[to]))
    };
    let at = |number: &usize| &values[*number];
    match operation {
        Operation::Convolution { x, w, y, pads, strides, dilations } => {
            let part = window(library, *pads, *strides, *dilations)?;
            let one = library.create(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?;
            link(&one, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &part)?;
            link(&one, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, at(x))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, at(w))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, at(y))?;
            library.set(
                &one,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                AttributeValue::Single(1.0),
            )?;
            library.set(
                &one,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                AttributeValue::Single(0.0),
            )?;
            library.finish(&one, "a convolution")?;
            Ok((Some(part), one))
        }
        Operation::Pointwise { function, x, b, y } => {
            let part = pointwise(library, *function)?;
            let one = library.create(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
            link(&one, Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &part)?;
            link(&one, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x))?;
            if let Some(b) = b {
                link(&one, Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b))?;
            }
            link(&one, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y))?;
            library.finish(&one, "a pointwise operation")?;
            Ok((Some(part), one))
        }
        Operation::Product { a, b, y } => {
            let part = library.create(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?;
            library.set(&part, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, type_value(DType::F32)?)?;
            library.finish(&part, "a product's precision")?;
            let one = library.create(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)?;
            link(&one, Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(y))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &part)?;
            library.finish(&one, "a product")?;
            Ok((Some(part), one))
        }
        Operation::Reduction { reduction, x, y } => {
            let part = library.create(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?;
            let by = match reduction {
                Reduction::Max => Reduced::CUDNN_REDUCE_TENSOR_MAX,
                Reduction::Sum => Reduced::CUDNN_REDUCE_TENSOR_ADD,
            };
            let by = AttributeValue::Named(Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, by as u32);
            library.set(&part, Name::CUDNN_ATTR_REDUCTION_OPERATOR, by)?;
            library.set(&part, Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, type_value(DType::F32)?)?;
            library.finish(&part, "a reduction's function")?;
            let one = library.create(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)?;
            link(&one, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, &part)?;
            library.finish(&one, "a reduction")?;
            Ok((Some(part), one))
        }
        Operation::Softmax { x, y } => {
            let one = library.create(Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR)?;
            link(&one, Name::CUDNN_ATTR_OPERATION_SOFTMAX_XDESC, at(x))?;
            link(&one, Name::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC, at(y))?;
            library.finish(&one, "a softmax")?;
            Ok((None, one))
        }
    }
}

fn window(
    library: Library,
    [before, after]: [[usize; 2]; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
) -> Result<Descriptor, Failure> {
    let one = library.create(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
    library.set(&one, Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, type_value(DType::F32)?)?;
    let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION as u32;
    let mode = AttributeValue::Named(Type::CUDNN_TYPE_CONVOLUTION_MODE, mode);
    library.set(&one, Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, mode)?;
    library.set(&one, Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, AttributeValue::Whole(&[2]))?;
    for (name, values) in [
        (Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, before),
        (Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, after),
        (Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides),
        (Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, dilations),
    ] {
        library.set(&one, name, AttributeValue::Whole(&whole(values)))?;
    }
    library.finish(&one, "a convolution's window")?;
    Ok(one)
}

fn pointwise(library: Library, function: Function) -> Result<Descriptor, Failure> {
    let one = library.create(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
    let mode = AttributeValue::Named(Type::CUDNN_TYPE_POINTWISE_MODE, mode(function) as u32);
    library.set(&one, Name::CUDNN_ATTR_POINTWISE_MODE, mode)?;
    library.set(&one, Name::CUDNN_ATTR_POINTWISE_MATH_PREC, type_value(DType::F32)?)?;
    match function {
        Function::Relu(slope) => {
            let nan = cudnnNanPropagation_t::CUDNN_NOT_PROPAGATE_NAN as u32;
            let nan = AttributeValue::Named(Type::CUDNN_TYPE_NAN_PROPOGATION, nan);
            library.set(&one, Name::CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, nan)?;
            library.set(
                &one,
                Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE,
                AttributeValue::Double(slope),
            )?;
        }
        Function::Elu(alpha) => {
            library.set(&one, Name::CUDNN_ATTR_POINTWISE_ELU_ALPHA, AttributeValue::Double(alpha))?
        }
        Function::Silu => {
            library.set(&one, Name::CUDNN_ATTR_POINTWISE_SWISH_BETA, AttributeValue::Double(1.0))?
        }
        Function::Softplus => {
            library.set(&one, Name::CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, AttributeValue::Double(1.0))?;
        }
        _ => {}
    }
    library.finish(&one, "a pointwise function")?;
    Ok(one)
}

fn mode(function: Function) -> Pointwise {
    match function {
        Function::Add => Pointwise::CUDNN_POINTWISE_ADD,
        Function::Sub => Pointwise::CUDNN_POINTWISE_SUB,
        Function::Mul => Pointwise::CUDNN_POINTWISE_MUL,
        Function::Div => Pointwise::CUDNN_POINTWISE_DIV,
        Function::Min => Pointwise::CUDNN_POINTWISE_MIN,
        Function::Max => Pointwise::CUDNN_POINTWISE_MAX,
        Function::Relu(_) => Pointwise::CUDNN_POINTWISE_RELU_FWD,
        Function::Elu(_) => Pointwise::CUDNN_POINTWISE_ELU_FWD,
        Function::Sigmoid => Pointwise::CUDNN_POINTWISE_SIGMOID_FWD,
        Function::Tanh => Pointwise::CUDNN_POINTWISE_TANH_FWD,
        Function::Silu => Pointwise::CUDNN_POINTWISE_SWISH_FWD,
        Function::Gelu => Pointwise::CUDNN_POINTWISE_GELU_FWD,
        Function::GeluTanh => Pointwise::CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
        Function::Softplus => Pointwise::CUDNN_POINTWISE_SOFTPLUS_FWD,
        Function::Exp => Pointwise::CUDNN_POINTWISE_EXP,
        Function::Log => Pointwise::CUDNN_POINTWISE_LOG,
        Function::Erf => Pointwise::CUDNN_POINTWISE_ERF,
        Function::Abs => Pointwise::CUDNN_POINTWISE_ABS,
        Function::Sqrt => Pointwise::CUDNN_POINTWISE_SQRT,
        Function::Neg => Pointwise::CUDNN_POINTWISE_NEG,
    }
}
