//! Tests of primitives. Where the library is absent the tests count as ignored; if `OVOLO_REQUIRE_ONEDNN` is set, as
//! in CI, they fail instead.
#![allow(missing_docs)]

use libtest_mimic::{Arguments, Trial};
use onednn_sys::{
    Algorithm, Arg, Attr, DataType, Desc, Error, Graph, Library, Operation, Primitive, PrimitiveDesc, Tag,
    Window, library, tag,
};

type Test = fn(&'static Library) -> Result<(), Error>;

const TESTS: &[(&str, Test)] = &[
    (
        "a_product_with_steps_runs_on_threads_of_the_caller",
        a_product_with_steps_runs_on_threads_of_the_caller,
    ),
    ("a_graph_runs_by_its_partitions", a_graph_runs_by_its_partitions),
    ("errors_carry_the_status_of_the_library", errors_carry_the_status_of_the_library),
    (
        "windows_with_another_number_of_dimensions_than_the_image_are_refused",
        windows_with_another_number_of_dimensions_than_the_image_are_refused,
    ),
    ("named_formats_have_the_expected_strides", named_formats_have_the_expected_strides),
];

fn main() {
    let ignored = library().is_err() && std::env::var_os("OVOLO_REQUIRE_ONEDNN").is_none();
    let trial = |(name, test): &(&str, Test)| {
        let test = *test;
        let run = move || {
            let library = library().map_err(|missing| format!("oneDNN is {missing}"))?;
            test(library).map_err(|error| error.to_string().into())
        };
        Trial::test(*name, run).with_ignored_flag(ignored)
    };
    libtest_mimic::run(&Arguments::from_args(), TESTS.iter().map(trial).collect()).exit();
}

fn plain(library: &'static Library, shape: &[usize]) -> Result<Desc, Error> {
    Desc::new(library, shape, DataType::F32, tag(["", "a", "ab", "abc"][shape.len()]).unwrap_or(Tag::ANY))
}

fn a_product_with_steps_runs_on_threads_of_the_caller(library: &'static Library) -> Result<(), Error> {
    let worker = || -> Result<(), Error> {
        let (a, b, c) = (plain(library, &[2, 3])?, plain(library, &[3, 2])?, plain(library, &[2, 2])?);
        let mut attr = Attr::new(library)?;
        attr.sum(DataType::F32)?;
        attr.eltwise(Algorithm::RELU, 0.0, 0.0)?;
        attr.binary(Algorithm::BINARY_MUL, &plain(library, &[1, 2])?)?;
        let desc = PrimitiveDesc::matmul(library, [&a, &b, &c], None, &attr)?;
        assert!(!desc.name().is_empty());
        let args = [Arg::SRC, Arg::WEIGHTS, Arg::DST, Arg::SCRATCH, Arg::step(2)];
        let mut primitive = Primitive::new(&desc, &args)?;
        let mut left = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut right = [1.0_f32, 0.0, 0.0, 1.0, 1.0, 1.0];
        let mut factor = [1.0_f32, 10.0];
        let mut scratch = vec![0_u8; desc.scratch().max(1)];
        for round in 0..3 {
            let mut result = [0.0_f32, 0.0, -100.0, 1.0];
            let places = [
                left.as_mut_ptr().cast(),
                right.as_mut_ptr().cast(),
                result.as_mut_ptr().cast(),
                scratch.as_mut_ptr(),
                factor.as_mut_ptr().cast(),
            ];
            // SAFETY: each array has the number of elements of its argument.
            unsafe { primitive.run(&places)? };
            assert_eq!(result, [4.0, 50.0, 0.0, 120.0], "round {round}");
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("the thread does not panic"))
    })
}

fn a_graph_runs_by_its_partitions(library: &'static Library) -> Result<(), Error> {
    let mut graph = Graph::new(library).expect("the library has the graph interface");
    let x = graph.value(&[2, 3], &[3, 1])?;
    // The right operand is stored as 2x3, and its rows are 4 elements apart.
    let w = graph.value(&[2, 3], &[4, 1])?;
    let factor = graph.value(&[1, 2], &[2, 1])?;
    let [product, y] = [graph.value(&[2, 2], &[2, 1])?, graph.value(&[2, 2], &[2, 1])?];
    graph.operation(Operation::Matmul { transposed: true }, &[x, w], product)?;
    graph.operation(Operation::Multiply, &[product, factor], y)?;
    let mut partitions = graph.partitions()?;
    assert_eq!(partitions.len(), 1);
    let partition = &mut partitions[0];
    assert_eq!((partition.inputs(), partition.outputs()), (&[x, w, factor][..], &[y][..]));
    let mut operands = [
        vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0],
        vec![1.0, 0.0, 1.0, f32::NAN, 0.0, 1.0, 1.0],
        vec![1.0, 10.0],
    ];
    for round in 0..2 {
        let mut result = [0.0_f32; 4];
        let inputs: Vec<*mut u8> = operands.iter_mut().map(|values| values.as_mut_ptr().cast()).collect();
        // SAFETY: each array has the elements of its value, and nobody else uses them.
        unsafe {
            let output = result.as_mut_ptr().cast();
            partition.run(&inputs, &[output])?;
        }
        assert_eq!(result, [4.0, 50.0, 10.0, 110.0], "round {round}");
    }
    Ok(())
}

fn errors_carry_the_status_of_the_library(library: &'static Library) -> Result<(), Error> {
    let Ok(a) = plain(library, &[2, 3]) else { panic!("the library describes a plain matrix") };
    let Ok(attr) = Attr::new(library) else { panic!("the library creates attributes") };
    let Err(error) = PrimitiveDesc::matmul(library, [&a, &a, &a], None, &attr) else {
        panic!("the library must refuse incompatible shapes")
    };
    assert_eq!(error.to_string(), "a matrix product: invalid_arguments");
    Ok(())
}

fn windows_with_another_number_of_dimensions_than_the_image_are_refused(
    library: &'static Library,
) -> Result<(), Error> {
    let image =
        |size| Desc::new(library, &[1, 3, size, size], DataType::F32, tag("abcd").unwrap_or(Tag::ANY));
    let (image, result, attr) = (image(8)?, image(4)?, Attr::new(library)?);
    let pool = |kernel: &[usize], after: Vec<i64>| {
        let window = Window { strides: vec![2; 2], dilations: vec![1; 2], before: vec![0; 2], after };
        let max = Algorithm::POOLING_MAX;
        PrimitiveDesc::pooling(library, max, [&image, &result], kernel, &window, &attr).err()
    };
    let refused = Some(Error { what: "a pool", status: 2 });
    assert_eq!(pool(&[2, 2], vec![0; 2]), None);
    assert_eq!(pool(&[2], vec![0; 2]), refused);
    assert_eq!(pool(&[2, 2], vec![0; 3]), refused);
    Ok(())
}

fn named_formats_have_the_expected_strides(library: &'static Library) -> Result<(), Error> {
    let desc = tag("aBcd16b").map(|tag| Desc::new(library, &[1, 17, 2, 3], DataType::F32, tag));
    let Some(Ok(desc)) = desc else { panic!("the library knows the format") };
    assert_eq!(desc.bytes(), 32 * 6 * 4);
    let format = desc.format().map(|format| (format.strides, format.blocks));
    assert_eq!(format, Some((vec![192, 96, 48, 16], vec![(1, 16)])));
    Ok(())
}
