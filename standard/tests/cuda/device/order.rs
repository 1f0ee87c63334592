//! The order of work on streams: copies beside kernels, captures, and mistakes that the stand-in must find.

use super::super::common;
use super::super::standin::{self, ORDERS};
use super::{GRAPHS, Kept, RUNS, module, parsed, small};
use libtest_mimic::Failed;
use ovolo::plan::schedule::Schedule;
use ovolo::session::Session;
use ovolo::tensor::Tensor;

/// Copies have their own streams, and run at the same time as kernels with which they share no bytes.
pub fn copies_run_beside_kernels() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    // The second input is copied while the first one is used, and the first result is copied back while the
    // second input is used. They share no bytes, because the first result is read only at the end.
    let graph = parsed(
        "x: f32[40,40] = input\ny: f32[40,40] = input\na = softmax(x) {axis: 1}\nb = transpose(a) {perm: [1,0]}\n         c = softmax(y) {axis: 1}\nd = concat(b, c) {axis: 0}\ne = softmax(d) {axis: 0}\nreturn a\nreturn e",
    )?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let plan = &compilation.plan;
    let schedule = Schedule::new(plan);
    let copies = |op: &str| -> Vec<usize> {
        let launches = schedule.segments.iter().flatten();
        let mut streams: Vec<usize> =
            launches.filter(|one| plan.steps[one.step].op == op).map(|one| one.stream).collect();
        streams.dedup();
        streams
    };
    let (up, down) = (copies("cuda.upload"), copies("cuda.download"));
    let kernels = copies("cuda.softmax");
    if up.len() != 1
        || down.len() != 1
        || up == down
        || kernels.contains(&up[0])
        || kernels.contains(&down[0])
    {
        return Err(format!("uploads on {up:?}, downloads on {down:?}, kernels on {kernels:?}").into());
    }
    let _turn = standin::turn();
    standin.register("beside", &module(plan)?);
    let kept = Kept::default();
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    standin.beside();
    let mut beside = [0; RUNS];
    for order in ORDERS {
        standin.order(order);
        let mut session =
            Session::with(&compilation.program, plan.clone(), common::registry().backends(), &kept)
                .map_err(|error| error.to_string())?;
        for (run, beside) in beside.iter_mut().enumerate() {
            let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
            let far = |(output, reference)| !small(common::relative_error(output, reference));
            if outputs.iter().zip(&reference).any(far) {
                return Err(format!("order {order}, run {run}: the values are wrong").into());
            }
            *beside += standin.beside();
        }
    }
    // The first runs queue each step; later ones replay.
    if beside.contains(&0) {
        return Err(format!("in some run no copy is beside a kernel in any order: {beside:?}\n{plan}").into());
    }
    standin.faults()?;
    Ok(())
}

/// While a session captures its work, another thread may load, run and drop sessions.
pub fn other_threads_may_work_during_a_capture() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let compiled = |source: &str| -> Result<_, Failed> {
        let graph = parsed(source)?;
        let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
            .map_err(|error| error.to_string())?;
        let inputs = common::inputs(&graph);
        let reference = common::reference(&graph, &inputs);
        Ok((compilation, inputs, reference))
    };
    let (first, other) = (compiled(GRAPHS[0].1)?, compiled(GRAPHS[1].1)?);
    let _turn = standin::turn();
    standin.register("captured", &module(&first.0.plan)?);
    standin.register("meanwhile", &module(&other.0.plan)?);
    standin.order(0);
    let kept = Kept::default();
    let load = |compilation: &ovolo::compile::Compilation| {
        let (program, plan) = (&compilation.program, compilation.plan.clone());
        Session::with(program, plan, common::registry().backends(), &kept).map_err(|error| error.to_string())
    };
    let run = |session: &mut Session, (_, inputs, reference): &(_, Vec<Tensor>, Vec<Tensor>)| {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
        let far = |(output, reference)| !small(common::relative_error(output, reference));
        if outputs.iter().zip(reference).any(far) { Err("the values are wrong".to_owned()) } else { Ok(()) }
    };
    let mut session = load(&first.0)?;
    run(&mut session, &first)?;
    let ready = std::sync::Barrier::new(2);
    let meanwhile = || {
        let before = load(&other.0).and_then(|mut session| {
            run(&mut session, &other)?;
            Ok(session)
        });
        ready.wait();
        let met = standin.met();
        let work = || {
            met?;
            drop(before?);
            let mut after = load(&other.0)?;
            (0..3).try_for_each(|_| run(&mut after, &other))
        };
        let done = work();
        standin.leave();
        done
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(meanwhile);
        ready.wait();
        // The second run captures.
        standin.meet("cuStreamEndCapture");
        let captured = run(&mut session, &first).map_err(|why| format!("during the capture: {why}"));
        let done = thread.join().map_err(|_| "the other thread panics".to_owned())?;
        done.map_err(|why| format!("meanwhile: {why}"))?;
        captured
    })?;
    run(&mut session, &first)?;
    Ok(standin.faults()?)
}

/// The stand-in can detect a copy to the device that nothing waits for: a constant is then not there yet.
pub fn a_late_copy_shows() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = parsed(GRAPHS[1].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let _turn = standin::turn();
    standin.register("late", &module(&compilation.plan)?);
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    standin.ignore("cuStreamSynchronize of the default stream");
    let session = Session::with(
        &compilation.program,
        compilation.plan.clone(),
        common::registry().backends(),
        &Kept::default(),
    );
    let outputs = session.map_err(|error| error.to_string()).and_then(|mut session| {
        session.run(&inputs).map(<[Tensor]>::to_vec).map_err(|error| error.to_string())
    });
    standin.ignore("");
    let far = |(output, reference)| !small(common::relative_error(output, reference));
    if !outputs?.iter().zip(&reference).any(far) {
        return Err("without the wait all values are right".into());
    }
    Ok(standin.faults()?)
}

/// The stand-in can detect missing waits: leaving one out gives a wrong value in some order.
pub fn a_missing_wait_shows() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let graph = parsed(GRAPHS[1].1)?;
    let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let _turn = standin::turn();
    standin.register("missing", &module(&compilation.plan)?);
    let kept = Kept::default();
    let inputs = common::inputs(&graph);
    let reference = common::reference(&graph, &inputs);
    for entry in ["cuStreamWaitEvent", "cuEventSynchronize"] {
        let mut wrong = false;
        for order in ORDERS {
            standin.order(order);
            let mut session = Session::with(
                &compilation.program,
                compilation.plan.clone(),
                common::registry().backends(),
                &kept,
            )
            .map_err(|error| error.to_string())?;
            standin.ignore(entry);
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            let outputs = session.run(&inputs).map_err(|error| error.to_string())?.to_vec();
            standin.ignore("");
            let far = |(output, reference)| !small(common::relative_error(output, reference));
            wrong |= outputs.iter().zip(&reference).any(far);
        }
        let _ = standin.faults();
        if !wrong {
            return Err(format!("without `{entry}` all values are right").into());
        }
    }
    Ok(())
}
