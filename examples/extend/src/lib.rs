//! An extension of ovolo that uses only its public API: the op `swirl`, `x * cos(turns * speed * x)`, with its
//! ONNX import and its sampler, a backend with one kernel, a guard, a pass, a cost model, an extractor and a command.

mod steps;

pub use steps::Steps;

use ovolo::attr::{Attr, AttrKind, Attrs, Float};
use ovolo::backend::{Args, Backend, Call, Contract, Kernel};
use ovolo::cost::{CostModel, Given, Pricing, PricingError, Query, pricing};
use ovolo::error::Error;
use ovolo::extract::{self, Claim, ExtractError, Extraction, Extractor, GreedyDag, GreedyTree, Problem};
use ovolo::onnx::Operator;
use ovolo::op::{Arity, AttrDef, Flags, Lowering, OpDef, OpError, Sample};
use ovolo::pass::{self, Context, Pass, PassReport, State};
use ovolo::registry::{Registry, RegistryError};
use ovolo::rule::{Kind, Value, Word};
use ovolo::tensor::{DType, Tensor, TensorType};
use serde::{Deserialize, Serialize};

/// Adds all of these to a registry.
///
/// # Errors
/// An error if the registry already has something with one of the names.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.add_build("extend", env!("OVOLO_BUILD"));
    registry.add_op(swirl())?;
    registry.add_operator(Operator {
        name: "com.example.Swirl",
        operands: (2, 2),
        import: |call| {
            let attrs = Attrs::new().float("turns", call.float("turns", 1.0)?);
            Ok(vec![call.result("swirl", attrs, &[&call.input(0)?, &call.input(1)?])?])
        },
    })?;
    registry.add_backend(std::sync::Arc::new(Extend))?;
    registry.add_word(Word::guard("is-still", "`turns` is 0", &[Kind::Number], |v| {
        if v.float(0)? == 0.0 { Ok(Value::yes()) } else { Err(format!("{} is not 0", v.show(0)).into()) }
    }))?;
    registry.add_pass("Census", pass::PassKind::with_settings::<Census>())?;
    registry.add_pricing(pricing::kind::<ByBytes>())?;
    registry.add_extractor(extract::kind::<Greedier>())?;
    registry.add_rules("rules/extend.ron", include_str!("../rules/extend.ron"))?;
    registry.add_examples("rules/examples/extend.ron", include_str!("../rules/examples/extend.ron"))?;
    registry.add_pipeline("passes/extend.ron", include_str!("../passes/extend.ron"))
}

fn swirl() -> OpDef {
    OpDef {
        name: "swirl",
        doc: "`x * cos(turns * speed * x)` for a matrix and a speed for each of its columns",
        arity: Arity::Exactly(2),
        attrs: vec![AttrDef::new("turns", AttrKind::Float, Some(Attr::Float(Float(1.0))), "turns of a unit")],
        flags: Flags::default(),
        infer: |_, types| match (&types[0].shape[..], &types[1].shape[..]) {
            ([rows, n], [m]) if n == m && *types[0] == TensorType::plain(types[1].dtype, [*rows, *n]) => {
                Ok(types[0].clone())
            }
            _ => Err(OpError::operands(format!("{} has no such columns as {}", types[0], types[1]))),
        },
        eval: |attrs, operands, ty| {
            let turns = attrs.expect_float("turns");
            let (x, speeds) = (operands[0].to_f64(), operands[1].to_f64());
            let values = x.iter().zip(speeds.iter().cycle()).map(|(x, speed)| x * (turns * speed * x).cos());
            let values: Vec<f64> = values.collect();
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &values)
        },
        flops: |_, _, ty| 21.0 * ty.shape.count() as f64,
        // Without it, verifiers would give both operands one type.
        sample: Some(|draw| {
            let (attrs, dtype) = (Attrs::new().float("turns", draw.float("turns")), draw.wanted().dtype);
            let (rows, columns) = (draw.small(), draw.size());
            let types = [TensorType::plain(dtype, [rows, columns]), TensorType::plain(dtype, [columns])];
            Some(Sample::new(attrs, types))
        }),
        lowered: None,
    }
}

struct Extend;

// SAFETY: the kernel reads its operands and writes its result, as many elements as their types have, and nothing else.
unsafe impl Backend for Extend {
    fn name(&self) -> &'static str {
        "extend"
    }

    fn ops(&self) -> Vec<Lowering> {
        let contract = |call: &Call<'_>| match call.output.dtype {
            DType::F32 => Ok(Contract { implementation: "scalar".into(), ..Contract::default() }),
            other => Err(OpError::kernel(format!("there is no kernel for {other}"))),
        };
        vec![Lowering::new("extend.swirl", "swirl", contract, |call| {
            let turns = call.attrs.expect_float("turns") as f32;
            Ok(Box::new(Swirl(turns, call.output.shape.count(), call.inputs[1].shape.count())))
        })]
    }
}

struct Swirl(f32, usize, usize);

impl Kernel for Swirl {
    unsafe fn run(&self, args: &Args<'_>) {
        for at in 0..self.1 {
            // SAFETY: the caller's promise: `x` and the result have this many elements, and there is a speed for each column.
            unsafe {
                let x = args.inputs[0].cast::<f32>().add(at).read();
                let speed = args.inputs[1].cast::<f32>().add(at % self.2).read();
                args.output.cast::<f32>().add(at).write(x * (self.0 * speed * x).cos());
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Census {}

impl Pass for Census {
    fn name(&self) -> &str {
        "census"
    }

    fn run(&self, state: State, _: &Context<'_>) -> Result<(State, PassReport), Error> {
        let nodes = state.egraph().map_or(0, ovolo::egraph::EGraph::nodes);
        Ok((state, PassReport::Custom(format!("{nodes} e-nodes"))))
    }
}

/// Prices a kernel at a nanosecond for each byte that it reads or writes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ByBytes;

impl Pricing for ByBytes {
    fn name(&self) -> &str {
        "bytes"
    }

    fn model(&self, _: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        Ok(Box::new(Self))
    }
}

impl CostModel for ByBytes {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        let call = &query.call;
        Some(call.op.work(call.attrs, call.inputs, call.output).bytes * 1e-9)
    }

    fn copy(&self, bytes: usize) -> f64 {
        2e-9 * bytes as f64
    }
}

/// Takes the cheaper result of two greedy extractors.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Greedier;

impl Extractor for Greedier {
    fn name(&self) -> &'static str {
        "greedier"
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let (dag, tree) = (GreedyDag.extract(problem)?, GreedyTree.extract(problem)?);
        Ok(if tree.cost < dag.cost { tree } else { dag })
    }
}
