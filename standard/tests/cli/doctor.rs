//! `ovolo doctor`.
#![allow(clippy::unwrap_used)]

use crate::common::{self, ovolo};
use crate::outcome::said;
use ovolo_tune::topology::Topology;

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
