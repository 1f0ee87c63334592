//! The command line as processes: at once, killed, on a full disk, in a folder that cannot be written.

use crate::fixture::{files, folder};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const OVOLO: &str = env!("CARGO_BIN_EXE_ovolo");

/// `ovolo run` of the digits, with a cache.
fn run(cache: &Path, outputs: &Path) -> Command {
    let mut command = Command::new(OVOLO);
    command.args(arguments(outputs)).env("OVOLO_CACHE", cache).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

fn arguments(outputs: &Path) -> Vec<String> {
    let outputs = outputs.display().to_string();
    let list = "run examples/digits/digits.onnx --dim N=360 --input image=examples/digits/images.npy --cost flops --threads 2 --json --output-dir";
    list.split(' ').map(str::to_owned).chain([outputs]).collect()
}

/// What a run says, and the bytes of its output; whether it came from the cache.
struct Ran {
    said: String,
    scores: Vec<u8>,
    cached: bool,
}

fn ran(output: &Output, outputs: &Path) -> Ran {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success(), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let scores = std::fs::read(outputs.join("scores.npy")).unwrap();
    Ran { said, scores, cached: json["cached"] == true }
}

fn go(cache: &Path, outputs: &Path) -> Ran {
    ran(&run(cache, outputs).output().unwrap(), outputs)
}

/// The output without a cache.
fn expected(at: &Path) -> Vec<u8> {
    let outputs = at.join("expected");
    let output = run(&at.join("no-cache"), &outputs).arg("--no-cache").output().unwrap();
    let ran = ran(&output, &outputs);
    assert!(!ran.cached && files(&at.join("no-cache")).is_empty());
    ran.scores
}

fn plans(cache: &Path) -> usize {
    files(&cache.join("plans")).len()
}

#[test]
fn the_second_run_is_from_the_cache_and_says_nothing() {
    let at = folder("second");
    let (cache, outputs) = (at.join("cache"), at.join("outputs"));
    let expected = expected(&at);
    for cached in [false, true, true] {
        let ran = go(&cache, &outputs);
        assert_eq!((ran.cached, ran.said.as_str()), (cached, ""));
        assert!(ran.scores == expected);
    }
    let again = run(&cache, &outputs).arg("--no-cache").output().unwrap();
    assert!(!ran(&again, &outputs).cached);
}

#[test]
fn sixteen_processes_at_once_agree() {
    let at = folder("sixteen");
    let cache = at.join("cache");
    let expected = expected(&at);
    for round in 0..3 {
        // In the last round half of them may keep nothing, and prune what the others keep.
        let children: Vec<_> = (0..16)
            .map(|number| {
                let outputs = at.join(format!("{round}-{number}"));
                let mut command = run(&cache, &outputs);
                if round == 2 && number % 2 == 0 {
                    command.env("OVOLO_CACHE_LIMIT", "60k");
                }
                let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
                (command.spawn().unwrap(), outputs)
            })
            .collect();
        for (child, outputs) in children {
            let ran = ran(&child.wait_with_output().unwrap(), &outputs);
            assert!(ran.scores == expected, "{}", outputs.display());
            assert!(round == 2 || ran.said.is_empty(), "{}", ran.said);
            assert!(round != 1 || ran.cached);
        }
        assert!(files(&cache).iter().all(|path| path.extension().is_none()), "a file was left half-written");
        assert!(round == 2 || plans(&cache) == 1);
    }
}

#[test]
fn killed_writers_lose_nothing_but_the_entry() {
    let at = folder("writers");
    let outputs = at.join("outputs");
    let expected = expected(&at);
    let (mut kept, mut lost) = (0, 0);
    for round in 0..60 {
        let cache = at.join(format!("cache-{round}"));
        let mut child = run(&cache, &outputs).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It is killed as soon as something of the cache is there, or a little later.
        while files(&cache).is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(20 * round));
        let _ = child.kill();
        child.wait().unwrap();
        *(if plans(&cache) == 0 { &mut lost } else { &mut kept }) += 1;
        let ran = go(&cache, &outputs);
        assert!(ran.scores == expected && ran.said.is_empty(), "{}", ran.said);
        assert!(go(&cache, &outputs).cached);
    }
    println!("{kept} entries were whole, {lost} were not there");
}

#[test]
fn a_folder_that_cannot_be_made_is_no_obstacle() {
    let at = folder("no-folder");
    let expected = expected(&at);
    let file = at.join("file");
    std::fs::write(&file, "no folder").unwrap();
    let ran = go(&file.join("cache"), &at.join("outputs"));
    assert!(ran.scores == expected && !ran.cached);
    assert!(ran.said.starts_with("note: the plan is not kept in the cache: "), "{}", ran.said);
    assert_eq!(ran.said.lines().count(), 1, "{}", ran.said);
}

#[test]
fn an_unknown_limit_is_refused() {
    let at = folder("limit-text");
    let output = run(&at, &at.join("outputs")).env("OVOLO_CACHE_LIMIT", "much").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said, "error: OVOLO_CACHE_LIMIT: `much` is no number of bytes, such as `500M` or `8G`\n");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    /// Nobody's number, for tests that root runs: root may write everywhere.
    const NOBODY: u32 = 65_534;

    /// Where one who may not write runs the program. Root may write everywhere and runs it as nobody,
    /// to whom the checkout and the build folder may be closed: the program, the model and the folders
    /// of the test then lie in a folder that is open to all.
    struct Stage {
        at: PathBuf,
        root: bool,
    }

    impl Stage {
        fn new(name: &str) -> Self {
            let at = folder(name);
            if std::fs::metadata(&at).unwrap().uid() != 0 {
                return Self::fill(at, false);
            }
            let name = format!("ovolo-test-{name}-{}", std::process::id());
            let open = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
            let mut stages = open.iter().map(|folder| Self::fill(folder.join(&name), true));
            stages.find(Self::opens).unwrap_or_else(|| panic!("none of {open:?} is open to all"))
        }

        fn fill(at: PathBuf, root: bool) -> Self {
            let _ = std::fs::remove_dir_all(&at);
            let stage = Self { at, root };
            let digits = stage.at.join("examples/digits");
            std::fs::create_dir_all(&digits).unwrap();
            std::fs::create_dir_all(stage.outputs()).unwrap();
            for name in ["digits.onnx", "images.npy"] {
                let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits").join(name);
                std::fs::copy(from, digits.join(name)).unwrap();
            }
            std::fs::copy(OVOLO, stage.at.join("ovolo")).unwrap();
            allow(&stage.outputs(), 0o777);
            stage
        }

        fn opens(&self) -> bool {
            self.command(&["--version".to_owned()]).output().is_ok_and(|output| output.status.success())
        }

        fn cache(&self) -> PathBuf {
            self.at.join("cache")
        }

        fn outputs(&self) -> PathBuf {
            self.at.join("outputs")
        }

        /// The program, run by one who may not write to the cache.
        fn command(&self, arguments: &[String]) -> Command {
            let mut command = Command::new(self.at.join("ovolo"));
            command.args(arguments).env("OVOLO_CACHE", self.cache()).current_dir(&self.at);
            if self.root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        }

        fn run(&self) -> Ran {
            ran(&self.command(&arguments(&self.outputs())).output().unwrap(), &self.outputs())
        }
    }

    impl Drop for Stage {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.at);
        }
    }

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// As [`allow`], for the folders of a cache.
    fn allow_all(cache: &Path, mode: u32) {
        for folder in [cache.join("plans"), cache.join("weights"), cache.to_owned()] {
            allow(&folder, mode);
        }
    }

    #[test]
    fn a_read_only_folder_is_read_and_not_written() {
        let stage = Stage::new("read-only");
        let cache = stage.cache();
        let expected = expected(&stage.at);
        std::fs::create_dir_all(&cache).unwrap();
        allow(&cache, 0o555);
        let ran = stage.run();
        assert!(ran.scores == expected && !ran.cached);
        assert!(ran.said.starts_with("note: the plan is not kept in the cache: "), "{}", ran.said);
        assert!(files(&cache).is_empty());
        // What is in it already is used.
        allow(&cache, 0o755);
        assert!(!go(&cache, &stage.at.join("other")).cached);
        allow_all(&cache, 0o555);
        let before = files(&cache);
        std::fs::remove_file(stage.outputs().join("scores.npy")).unwrap();
        let ran = stage.run();
        assert!(ran.scores == expected && ran.cached);
        assert_eq!(ran.said, "");
        // What is damaged cannot be removed, and is found damaged each time.
        let plan = before.iter().find(|path| path.parent().unwrap().ends_with("plans")).unwrap();
        let mut bytes = std::fs::read(plan).unwrap();
        bytes[100] ^= 1;
        std::fs::write(plan, &bytes).unwrap();
        for _ in 0..2 {
            let ran = stage.run();
            assert!(ran.scores == expected && !ran.cached);
            assert!(ran.said.contains("is made again: it is damaged: its checksum is wrong"), "{}", ran.said);
            assert!(ran.said.contains("note: the plan is not kept in the cache: "), "{}", ran.said);
        }
        assert_eq!(files(&cache), before);
        allow_all(&cache, 0o755);
    }

    #[test]
    fn commands_that_cannot_remove_say_so_and_fail() {
        let stage = Stage::new("cannot-remove");
        let cache = stage.cache();
        go(&cache, &stage.at.join("other"));
        let before = files(&cache);
        let weight = files(&cache.join("weights"))[0].clone();
        let whole = std::fs::read(&weight).unwrap();
        std::fs::write(&weight, &whole[1..]).unwrap();
        allow_all(&cache, 0o555);
        for line in ["cache prune --limit 0", "cache clear", "cache verify --remove"] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let output = stage.command(&words).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{line}: {said}");
            assert!(
                said.contains("could not be removed") && said.contains("Permission denied"),
                "{line}: {said}"
            );
        }
        assert_eq!(files(&cache), before);
        allow_all(&cache, 0o755);
    }

    /// Writes fail in the middle of a file: the shell allows files of so many blocks of 512 bytes.
    fn short_of_space(cache: &Path, outputs: &Path, blocks: usize) -> Output {
        let limits = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &limits, "sh", OVOLO]).args(arguments(outputs));
        shell.env("OVOLO_CACHE", cache).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap()
    }

    #[test]
    fn writes_that_fail_half_way_lose_nothing_but_the_entry() {
        let at = folder("full");
        let (cache, outputs) = (at.join("cache"), at.join("outputs"));
        let expected = expected(&at);
        // The scores take 14 kB and must fit; a weight of 70 kB does not.
        for blocks in [32, 48, 64] {
            let ran = ran(&short_of_space(&cache, &outputs, blocks), &outputs);
            assert!(ran.scores == expected && !ran.cached);
            assert!(ran.said.starts_with("note: the plan is not kept in the cache: "), "{}", ran.said);
            assert_eq!(plans(&cache), 0);
            assert!(files(&cache).iter().all(|path| path.extension().is_none()), "half a file is left");
        }
        assert!(!go(&cache, &outputs).cached);
        assert!(go(&cache, &outputs).cached);
        // A full disk is read as any other.
        assert!(ran(&short_of_space(&cache, &outputs, 32), &outputs).cached);
    }

    #[test]
    fn a_disk_that_is_full_loses_nothing_but_the_entry() {
        let at = folder("tmpfs");
        let (cache, outputs) = (at.join("cache"), at.join("outputs"));
        std::fs::create_dir_all(&cache).unwrap();
        let expected = expected(&at);
        let script =
            "mount -t tmpfs -o size=64k none \"$OVOLO_CACHE\" && \"$@\" && ls -R \"$OVOLO_CACHE\" >&2";
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", OVOLO])
            .args(arguments(&outputs))
            .env("OVOLO_CACHE", &cache)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            println!("skipped: no file system of this test's own can be mounted here");
            return;
        };
        let ran = ran(&output, &outputs);
        assert!(ran.scores == expected && !ran.cached);
        assert!(
            ran.said.contains("note: the plan is not kept in the cache: ")
                && ran.said.contains("No space left")
        );
        assert!(!ran.said.contains(".part"), "{}", ran.said);
    }
}

#[test]
fn compiling_fills_the_cache_for_runs_and_says_whether_it_was_used() {
    let at = folder("compile");
    let (cache, outputs) = (at.join("cache"), at.join("outputs"));
    let compile = |more: &[&str]| {
        let line = "compile examples/digits/digits.onnx --dim N=360 --cost flops --threads 2";
        let mut command = Command::new(OVOLO);
        command.args(line.split(' ')).args(more).env("OVOLO_CACHE", &cache);
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let without = compile(&["--no-cache"]);
    assert!(without.contains(" ms  plan: ") && !without.contains("miss") && files(&cache).is_empty());
    let first = compile(&[]);
    let last = first.lines().last().unwrap();
    let entry = last.strip_prefix("miss: kept as entry ").unwrap();
    assert!(first.contains(" ms  plan: ") && entry.len() == 7, "{first}");
    let again = compile(&[]);
    assert!(again.starts_with(&format!("hit: entry {entry}: ")), "{again}");
    let plan = |text: &str| text.split(" steps, ").nth(1).unwrap().split(", est").next().unwrap().to_owned();
    let told = first.lines().find(|line| line.contains(" ms  plan: ")).unwrap();
    assert_eq!(plan(again.lines().next().unwrap()), plan(told));
    let json = |more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&compile(&[&["--json"], more].concat())).unwrap()
    };
    let (hit, anew) = (json(&[]), json(&["--no-cache"]));
    assert_eq!((&hit["cached"], &hit["entry"]), (&true.into(), &entry.into()));
    assert_eq!((&anew["cached"], &anew["entry"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!((&hit["arena"], &hit["seconds"]), (&anew["arena"], &anew["seconds"]));
    assert!(compile(&["--growth"]).contains("matched"), "what rules did is told by a compilation alone");
    assert!(go(&cache, &outputs).cached, "a run takes what was compiled");
}

#[test]
fn clearing_leaves_what_is_not_ours() {
    let (cache, outputs) = (folder("foreign"), folder("foreign-outputs"));
    go(&cache, &outputs);
    for (sub, name) in [("weights", "model.bin"), ("plans", "notes.txt")] {
        std::fs::create_dir_all(cache.join(sub)).unwrap();
        std::fs::write(cache.join(sub).join(name), "mine").unwrap();
    }
    let cleared = Command::new(OVOLO).args(["cache", "clear"]).env("OVOLO_CACHE", &cache).output().unwrap();
    assert!(cleared.status.success());
    assert_eq!(std::fs::read_to_string(cache.join("weights/model.bin")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(cache.join("plans/notes.txt")).unwrap(), "mine");
    assert!(!go(&cache, &outputs).cached);
}
