//! `ovolo doctor`.
#![allow(clippy::unwrap_used)]

use crate::common::{self, ovolo};
use crate::outcome::said;
use ovolo_tune::topology::Topology;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Restricts the calling thread, and processes that it starts, to one of its processors.
#[cfg(target_os = "linux")]
fn use_one_processor() {
    // SAFETY: a set consists of plain bits, and its size is passed; the number of a processor is below the size of a set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(ovolo::team::allowed()[0], &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

#[test]
fn the_topology_is_that_of_the_processors_that_the_process_may_use() {
    let folder = common::folder("doctor");
    let doctor = || {
        let text = said(&ovolo(&folder, &["doctor", "--threads", "1"]));
        let json = said(&ovolo(&folder, &["doctor", "--threads", "1", "--json"]));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let processors = usize::try_from(json["threads"].as_u64().unwrap()).unwrap();
        let (lines, mut topology) = match Topology::here() {
            Ok(topology) => {
                let advice = topology.advice(processors);
                let mut json = serde_json::to_value(&topology).unwrap();
                json["advice"] = advice.clone().into();
                let advice = advice.iter().map(|advice| format!("\nthreads: {advice}"));
                (topology.to_string() + &advice.collect::<String>(), json)
            }
            Err(why) => {
                let json = serde_json::json!({ "unknown": why.to_string() });
                (format!("topology of these processors: unknown ({why})"), json)
            }
        };
        let expected =
            format!("\nprocessors this process may use: {processors}\n{lines}\ninstruction sets: ");
        assert!(text.contains(&expected), "{text}\nis without{expected}");
        assert_eq!(json["topology"], topology);
        topology["threads"].take()
    };
    doctor();
    #[cfg(target_os = "linux")]
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use_one_processor();
            assert!([serde_json::json!(1), serde_json::Value::Null].contains(&doctor()));
        });
    });
}

/// Speeds in GFLOP/s that no machine has, so that it shows whether speeds were measured.
const IMPOSSIBLE: f64 = 1e9;

/// Speeds that were measured in a short time are used until a command takes its time; those that were measured on a busy
/// machine are used for ten minutes.
#[test]
fn speeds_are_used_as_long_as_how_they_were_measured_permits() {
    let at = common::folder("calibration");
    std::fs::write(at.join("g.ovolo"), "graph { x: f32[64,64] = input; y = exp(x); return y }").unwrap();
    let file = at.join("cache/machine-1.json");
    let read = || serde_json::from_slice::<serde_json::Value>(&std::fs::read(&file).unwrap()).unwrap();
    let doctor = || said(&ovolo(&at, &["doctor", "--threads", "1"]));
    assert!(!doctor().contains("plans up to now"), "nothing was measured before");
    let measured = read();
    assert_eq!(measured["brief"], false);
    let keep = |brief: bool, disturbed: Option<u64>| {
        let mut kept = measured.clone();
        (kept["brief"], kept["disturbed"]) = (brief.into(), disturbed.into());
        kept["machine"]["flops"] = (IMPOSSIBLE * 1e9).into();
        std::fs::write(&file, kept.to_string()).unwrap();
        kept
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // A compilation by the price list, with its messages.
    let compile = |at: &Path| {
        let list = ["compile", "g.ovolo", "--threads", "1", "--cost", "fitted", "--no-cache"];
        let output = ovolo(at, &list);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let busy = "the machine was busy while its speed was measured";
    for (brief, disturbed, listed) in [
        (true, None, "GFLOP/s with 1 thread, measured in a short time"),
        (false, Some(now), "GFLOP/s with 1 thread, measured on a busy machine"),
        (true, Some(now), "GFLOP/s with 1 thread, measured in a short time on a busy machine"),
        (false, None, "GFLOP/s with 1 thread"),
    ] {
        let kept = keep(brief, disturbed);
        let list = said(&ovolo(&at, &["cache", "list"]));
        let line = list.lines().find(|line| line.contains("machine-1.json")).unwrap();
        assert!(line.ends_with(&format!("{IMPOSSIBLE} {listed}")), "{line}");
        assert_eq!(compile(&at).contains(busy), disturbed.is_some());
        assert_eq!(read(), kept, "it is used as it is");
        let told = doctor();
        let how = listed.split_once(", ").map(|(_, how)| format!("which were {how}"));
        match how {
            Some(how) => assert!(
                told.contains(&format!("chosen by {IMPOSSIBLE} GFLOP/s")) && told.contains(&how),
                "{told}"
            ),
            None => assert!(!told.contains("plans up to now"), "{told}"),
        }
        let again = brief || disturbed.is_some();
        assert_eq!(
            read()["machine"]["flops"] != kept["machine"]["flops"],
            again,
            "`doctor` measures it again"
        );
        assert_eq!(read()["brief"], false);
    }
    // Speeds of a busy machine are too old after ten minutes, and a compilation measures them in a short time.
    let kept = keep(false, Some(now - ovolo_tune::calibrate::DISTURBED_FOR.as_secs() - 1));
    assert!(said(&ovolo(&at, &["cache", "list"])).contains("not used: "));
    compile(&at);
    assert_eq!(read()["brief"], true);
    assert_ne!(read()["machine"]["flops"], kept["machine"]["flops"]);
}
