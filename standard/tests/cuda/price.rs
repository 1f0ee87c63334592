//! Tests the prices of a device: they follow from its properties.

use super::common;
use super::standin;
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::backend::Backend;
use ovolo::cost::{CostModel, Machine, PriceList, PriceModel, Query};
use ovolo::error::Source;
use ovolo::op::{Call, Contract};
use ovolo::tensor::{DType, TensorType};
use ovolo_cuda::Cuda;
use std::sync::Arc;

/// A device of `costs/devices`, with what its data sheet says: terabytes per second, and 10^12 operations per second in
/// f16 with sums in f32 and without sparsity, in f32 without tensor cores, and in f64.
const DEVICES: &[(&str, f64, [f64; 3])] = &[
    ("a100", 2.039, [312.0, 19.5, 19.5]),
    ("b200", 8.0, [2250.0, 80.0, 40.0]),
    ("h100", 3.35, [989.0, 67.0, 67.0]),
    ("rtx-4090", 1.008, [165.2, 82.6, 1.29]),
];

/// The seconds of a call of an op with one type of operands and result.
fn seconds(list: &Arc<PriceList>, op: &str, ty: &TensorType) -> Result<f64, Failed> {
    let ops = common::registry().ops();
    let op = ops.get(op).ok_or("the op is absent")?;
    let attrs = op.complete(Attrs::new());
    let call = Call { op, attrs: &attrs, inputs: &[ty, ty], output: ty, threads: 1 };
    let contract = Contract { implementation: "any".to_owned(), ..Contract::default() };
    let model = PriceModel::new("nominal", Machine::NOMINAL, Arc::clone(list));
    let query = Query { call, constant: &[false, false], contract: &contract };
    Ok(model.seconds(&query).ok_or("it has no price")?)
}

fn over_shipped(source: Source) -> Result<Arc<PriceList>, Failed> {
    Ok(Arc::new(PriceList::over_shipped(&[source]).map_err(|mistakes| mistakes.to_string())?))
}

fn close(what: &str, found: f64, expected: f64) -> Result<(), Failed> {
    // The clocks that drivers report are up to a tenth above those of data sheets.
    if (0.88..1.12).contains(&(found / expected)) {
        return Ok(());
    }
    Err(format!("{what}: {found:e}, and the data sheet says {expected:e}").into())
}

/// Large products and sums take what the data sheet of a device promises, by the shares of the shipped list.
#[allow(clippy::cast_precision_loss)]
pub fn devices_have_the_speeds_of_their_data_sheets() -> Result<(), Failed> {
    let folder = common::root().join("costs/devices");
    let shipped = std::fs::read_dir(&folder)?.count();
    if shipped != DEVICES.len() {
        return Err(format!("{shipped} devices ship, and {} have a data sheet here", DEVICES.len()).into());
    }
    for (name, memory, speeds) in DEVICES {
        let text = std::fs::read_to_string(folder.join(format!("{name}.ron")))?;
        let list = over_shipped(Source::new(*name, text))?;
        let side = 16384;
        let flops = 2.0 * (side as f64).powi(3);
        let shares = [(DType::F16, 0.55), (DType::F32, 0.75), (DType::F64, 0.75)];
        for ((dtype, share), speed) in shares.into_iter().zip(speeds) {
            let took = seconds(&list, "cublaslt.matmul", &TensorType::plain(dtype, [side, side]))?;
            close(&format!("{name}, {dtype}"), flops / took, speed * 1e12 * share)?;
        }
        let count = 1 << 30;
        let took = seconds(&list, "cuda.add", &TensorType::plain(DType::F32, [count]))?;
        close(&format!("{name}, memory"), 12.0 * count as f64 / took, memory * 1e12 * 0.92)?;
    }
    Ok(())
}

/// The backend tells the properties that the driver reports, and the price list and the key of plans have them.
pub fn the_driver_tells_the_properties() -> Result<(), Failed> {
    standin::get().ok_or("there is no stand-in")?;
    let found = Cuda.prices().ok_or("there are no prices")?;
    let expected = [
        ("capability", "90"),
        ("multiprocessors", "132"),
        ("clock", "1.83e9"),
        ("memory_clock", "3.2e9"),
        ("memory_bus", "6144"),
    ];
    let expected: Vec<(String, String)> =
        expected.iter().map(|(word, value)| ((*word).to_owned(), (*value).to_owned())).collect();
    let details = Cuda.details();
    if details != expected || !found.text.contains("the properties of Stand-in") {
        return Err(format!("{details:?}\n{}", found.text).into());
    }
    // The stand-in has the properties that the shipped list assumes.
    let shipped = &common::registry().catalog().prices;
    let (ty, here) = (TensorType::plain(DType::F32, [1 << 20]), over_shipped(found)?);
    let [a, b] = [shipped, &here].map(|list| seconds(list, "cuda.add", &ty).ok());
    if a != b { Err(format!("{a:?} {b:?}").into()) } else { Ok(()) }
}
