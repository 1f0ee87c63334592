//! `ovolo test`.
#![allow(clippy::unwrap_used)]

use crate::common::{folder, ovolo, root};
use std::path::Path;

/// Runs the command in a folder, and returns the exit code, what it printed, and its errors.
fn test(at: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let all: Vec<&str> = std::iter::once("test").chain(arguments.iter().copied()).collect();
    let output = ovolo(at, &all);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const GRAPH: &str = "graph g {\n  x: f32[2,3] = input\n  y = relu(x)\n  return y\n}\n";

/// A folder with a case of a graph of one op.
fn with_case(name: &str, show: &str) -> std::path::PathBuf {
    let at = folder(name);
    std::fs::write(at.join("g.ovolo"), GRAPH).unwrap();
    let case = format!("Case(\n    model: \"g.ovolo\",\n    show: [{show}],\n)\n");
    std::fs::write(at.join("g.case.ron"), case).unwrap();
    at
}

#[test]
fn the_example_s_snapshots_hold() {
    let (code, printed, why) = test(&root(), &["examples/snapshots"]);
    assert_eq!((code, printed.as_str()), (Some(0), "3 passed, 0 failed\n"), "{why}");
}

#[test]
fn a_case_fails_until_it_is_blessed_and_when_its_model_changes() {
    let at = with_case("test-bless", "\"rules\", \"plan\"");
    let (code, printed, why) = test(&at, &["."]);
    assert_eq!((code, why.as_str()), (Some(1), "error: 0 passed, 1 failed\n"));
    assert!(
        printed.contains("no snapshot yet") && printed.contains("# plan\ninput x: f32[2,3]"),
        "{printed}"
    );
    assert!(!at.join("g.case.snap").exists());
    let (code, printed, _) = test(&at, &[".", "--bless"]);
    assert_eq!(
        (code, printed.as_str()),
        (Some(0), "./g.case.snap: written\n0 passed, 1 written, 0 failed\n")
    );
    assert_eq!(test(&at, &["g.case.ron"]).0, Some(0));
    std::fs::write(at.join("g.ovolo"), GRAPH.replace("relu", "abs")).unwrap();
    let (code, printed, _) = test(&at, &["."]);
    assert_eq!(code, Some(1));
    assert!(printed.contains("-map-relu\n") || printed.contains("-lower-relu-native\n"), "{printed}");
    assert!(printed.contains("post: <relu>") && printed.contains("+++ now"), "{printed}");
}

#[test]
fn mistakes_of_a_case_are_shown_at_their_places() {
    let at = with_case("test-mistakes", "\"grap\"");
    let (code, printed, _) = test(&at, &["."]);
    assert_eq!(code, Some(1));
    assert!(
        printed.contains("a case cannot show `grap`") && printed.contains("did you mean `graph`?"),
        "{printed}"
    );
    std::fs::write(at.join("g.case.ron"), "Case(show: [\"plan\"])").unwrap();
    assert!(test(&at, &["."]).1.contains("a case needs a model or a script"));
    let mistakes = [
        ("model: \"absent.onnx\"", "there is no file or folder `absent.onnx`"),
        ("model: 5", "`model` must be text in quotes"),
        ("model: \"g.ovolo\", pipeline: \"nativ\"", "there is no pipeline `nativ`"),
        ("model: \"g.ovolo\", costs: [\"absent.ron\"]", "there is no file or folder `absent.ron`"),
        ("model: \"g.ovolo\", cost: \"flop\"", "there is no cost model `flop`: did you mean `flops`?"),
        ("model: \"g.ovolo\", extractor: \"exct\"", "there is no extractor `exct`: did you mean `exact`?"),
        ("model: \"g.ovolo\", threads: 5000", "a plan cannot have 5000 threads"),
        ("model: \"g.ovolo\", threads: -1", "a plan cannot have -1 threads"),
        ("model: \"g.ovolo\", pipeline: \"g.ovolo\"", "`g.ovolo` is no pipeline"),
        ("model: \"g.ovolo\", add: [\"g.ovolo:fuse\"]", "`g.ovolo` is no file of rules"),
        ("model: \"g.ovolo\", show: []", "`show` lists nothing"),
        ("model: \"g.ovolo\", after: \"fuze\"", "pipeline `native` has no pass `fuze`"),
        ("model: \"g.ovolo\", add: [\"fuse\"]", "`fuse` does not say which rules to add to which phase"),
        ("model: \"g.ovolo\", add: [\"absent.ron:fuse\"]", "there is no file `absent.ron`"),
        ("model: \"g.ovolo\", add: [\"fusion:fuze\"]", "pipeline `native` has no phase `fuze`"),
    ];
    for (fields, message) in mistakes {
        std::fs::write(at.join("g.case.ron"), format!("Case(\n  {fields},\n)")).unwrap();
        let (_, printed, _) = test(&at, &["."]);
        assert!(printed.contains(message), "{printed}");
        assert!(printed.contains("--> ./g.case.ron:2:"), "{printed}");
        // A model that cannot be read is not absent as well.
        assert!(!printed.contains("a case needs"), "{printed}");
    }
}

#[test]
fn a_snapshot_without_a_case_and_a_folder_without_cases_are_errors() {
    let at = with_case("test-stray", "\"plan\"");
    assert_eq!(test(&at, &[".", "--bless"]).0, Some(0));
    std::fs::rename(at.join("g.case.snap"), at.join("h.case.snap")).unwrap();
    let (code, printed, _) = test(&at, &[".", "--bless"]);
    assert_eq!(code, Some(1));
    assert!(printed.contains("h.case.snap: no case has this snapshot: delete it"), "{printed}");
    std::fs::remove_file(at.join("g.case.ron")).unwrap();
    assert!(test(&at, &["."]).2.contains("there is no case (`NAME.case.ron`) in ."));
    assert!(test(&at, &["g.ovolo"]).2.contains("a case is a file `NAME.case.ron`"));
}

/// The script gets the path of the model as its last argument, and runs in the folder of the case.
#[cfg(unix)]
#[test]
fn a_script_can_write_the_model() {
    let at = folder("test-script");
    std::fs::copy(root().join("examples/digits/digits.onnx"), at.join("digits.onnx")).unwrap();
    let case = "Case(script: \"cp digits.onnx\", dims: {\"N\": 2}, show: [\"plan\"])";
    std::fs::write(at.join("digits.case.ron"), case).unwrap();
    let (code, printed, why) = test(&at, &[".", "--bless"]);
    assert_eq!(code, Some(0), "{printed}{why}");
    let snapshot = std::fs::read_to_string(at.join("digits.case.snap")).unwrap();
    assert!(snapshot.starts_with("# plan\ninput image: f32[2,1,"), "{snapshot}");
    std::fs::write(at.join("digits.case.ron"), case.replace("cp", "true")).unwrap();
    assert!(test(&at, &["."]).1.contains("wrote no model"));
    std::fs::write(at.join("digits.case.ron"), case.replace("cp digits.onnx", "false")).unwrap();
    assert!(test(&at, &["."]).1.contains("script `false` failed"));
}
