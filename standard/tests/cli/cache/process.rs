//! Tests the command line as processes: several at once, killed, on a full disk, in a folder that is not
//! writable.

use crate::cache::fixture::{files, folder};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const OVOLO: &str = env!("CARGO_BIN_EXE_ovolo");

/// `ovolo run` of the digits model with a cache.
fn run(cache: &Path, outputs: &Path) -> Command {
    let mut command = Command::new(OVOLO);
    command
        .args(arguments(outputs))
        .env("OVOLO_CACHE", cache)
        .env("OVOLO_PIPELINE", "native")
        .current_dir(crate::common::root());
    command
}

fn arguments(outputs: &Path) -> Vec<String> {
    let outputs = outputs.display().to_string();
    let list = "run examples/digits/digits.onnx --dim N=360 --input image=examples/digits/images.npy --cost flops --threads 2 --json --output-dir";
    list.split(' ').map(str::to_owned).chain([outputs]).collect()
}

/// The messages of a run, the bytes of its output, and whether the plan came from the cache.
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

/// Returns the output without a cache.
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
        // In the last round, half of the processes have no space in the cache, and remove what the others
        // keep.
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
    // Each round is killed a little later than the one before.
    let rounds = crate::common::draws(60, 15) as u64;
    let step = 1200 / rounds;
    for round in 0..rounds {
        let cache = at.join(format!("cache-{round}"));
        let mut child = run(&cache, &outputs).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It is killed as soon as the cache has a file, or a little later.
        while files(&cache).is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(step * round));
        let _ = child.kill();
        child.wait().unwrap();
        *(if plans(&cache) == 0 { &mut lost } else { &mut kept }) += 1;
        let ran = go(&cache, &outputs);
        assert!(ran.scores == expected && ran.said.is_empty(), "{}", ran.said);
        assert!(go(&cache, &outputs).cached);
    }
    println!("{kept} entries were complete, {lost} were absent");
}

#[test]
fn a_run_works_without_a_folder_for_the_cache() {
    let at = folder("no-folder");
    let expected = expected(&at);
    let file = at.join("file");
    std::fs::write(&file, "no folder").unwrap();
    let ran = go(&file.join("cache"), &at.join("outputs"));
    assert!(ran.scores == expected && !ran.cached);
    assert!(ran.said.starts_with("note: the plan was not stored in the cache: "), "{}", ran.said);
    assert_eq!(ran.said.lines().count(), 1, "{}", ran.said);
}

#[test]
fn a_run_with_a_malformed_limit_continues_and_removes_nothing() {
    let at = folder("limit-text");
    let (cache, outputs) = (at.join("cache"), at.join("outputs"));
    for cached in [false, true] {
        let output = run(&cache, &outputs).env("OVOLO_CACHE_LIMIT", "much").output().unwrap();
        let ran = ran(&output, &outputs);
        assert_eq!(ran.cached, cached);
        assert!(
            ran.said.starts_with("note: OVOLO_CACHE_LIMIT: `much` is not a number of bytes"),
            "{}",
            ran.said
        );
        assert_eq!(ran.said.lines().count(), 1, "{}", ran.said);
    }
    // Commands about the cache fail instead.
    let mut prune = Command::new(OVOLO);
    prune
        .args(["cache", "prune"])
        .env("OVOLO_CACHE", &cache)
        .env("OVOLO_PIPELINE", "native")
        .env("OVOLO_CACHE_LIMIT", "much");
    let output = prune.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr).unwrap().starts_with("error: OVOLO_CACHE_LIMIT: `much` is not a")
    );
    assert_eq!(plans(&cache), 1);
}

#[test]
fn a_limit_that_was_lowered_acts_on_the_next_run() {
    let at = folder("lowered");
    let (cache, outputs) = (at.join("cache"), at.join("outputs"));
    go(&cache, &outputs);
    let size = |cache: &Path| files(cache).iter().map(|path| path.metadata().unwrap().len()).sum::<u64>();
    let one = size(&cache);
    let other = "compile examples/digits/digits.onnx --dim N=2 --cost flops --threads 2";
    let mut compile = Command::new(OVOLO);
    compile
        .args(other.split(' '))
        .env("OVOLO_CACHE", &cache)
        .env("OVOLO_PIPELINE", "native")
        .current_dir(crate::common::root());
    assert!(compile.output().unwrap().status.success());
    assert!(plans(&cache) == 2 && size(&cache) > one);
    let output = run(&cache, &outputs).env("OVOLO_CACHE_LIMIT", one.to_string()).output().unwrap();
    let ran = ran(&output, &outputs);
    assert!(ran.cached && ran.said.is_empty(), "{}", ran.said);
    assert!(plans(&cache) == 1 && size(&cache) <= one);
    assert!(go(&cache, &outputs).cached, "the entry that was used stays");
}

#[test]
fn files_of_killed_writers_of_tables_and_archives_are_removed() {
    let at = folder("parts");
    let (cache, outputs) = (at.join("cache"), at.join("outputs"));
    go(&cache, &outputs);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let part = |path: PathBuf| {
        std::fs::File::create(&path).unwrap().set_modified(old).unwrap();
        path
    };
    let table = part(cache.join("times-2.txt.123-0.part"));
    let foreign = part(cache.join("mine.part"));
    let saved = part(at.join("digits.cache.123-4.part"));
    assert!(go(&cache, &outputs).cached && !table.exists() && foreign.exists());
    let line = "save-cache examples/digits/digits.onnx --dim N=360 --cost flops --threads 2";
    let mut save = Command::new(OVOLO);
    save.args(line.split(' '))
        .arg(at.join("digits.cache"))
        .env("OVOLO_CACHE", &cache)
        .env("OVOLO_PIPELINE", "native");
    assert!(save.current_dir(crate::common::root()).output().unwrap().status.success());
    assert!(at.join("digits.cache").exists() && !saved.exists());
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    /// The user `nobody`, for tests that run as root, because root may write everywhere.
    const NOBODY: u32 = 65_534;

    /// A place where a user without write permission runs the program. Root may write everywhere, so root
    /// runs the program as nobody. The checkout and the build folder may be closed to nobody, so the program,
    /// the model and the folders of the test are copied to a folder that is open to everyone.
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
                let from = crate::common::root().join("examples/digits").join(name);
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

        /// The program, run by a user who may not write to the cache.
        fn command(&self, arguments: &[String]) -> Command {
            let mut command = Command::new(self.at.join("ovolo"));
            command
                .args(arguments)
                .env("OVOLO_CACHE", self.cache())
                .env("OVOLO_PIPELINE", "native")
                .current_dir(&self.at);
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

    /// Like [`allow`], for the folders of a cache.
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
        assert!(ran.said.starts_with("note: the plan was not stored in the cache: "), "{}", ran.said);
        assert!(files(&cache).is_empty());
        // The entry that is already in it is used.
        allow(&cache, 0o755);
        assert!(!go(&cache, &stage.at.join("other")).cached);
        allow_all(&cache, 0o555);
        let before = files(&cache);
        std::fs::remove_file(stage.outputs().join("scores.npy")).unwrap();
        let ran = stage.run();
        assert!(ran.scores == expected && ran.cached);
        assert_eq!(ran.said, "");
        // Damage cannot be removed, and is found each time.
        let plan = before.iter().find(|path| path.parent().unwrap().ends_with("plans")).unwrap();
        let mut bytes = std::fs::read(plan).unwrap();
        bytes[100] ^= 1;
        std::fs::write(plan, &bytes).unwrap();
        for _ in 0..2 {
            let ran = stage.run();
            assert!(ran.scores == expected && !ran.cached);
            assert!(ran.said.contains("is made again: it is damaged: its checksum is wrong"), "{}", ran.said);
            assert!(ran.said.contains("note: the plan was not stored in the cache: "), "{}", ran.said);
        }
        assert_eq!(files(&cache), before);
        allow_all(&cache, 0o755);
    }

    #[test]
    fn a_model_is_saved_although_the_cache_cannot_be_written() {
        let stage = Stage::new("save-read-only");
        let (cache, file) = (stage.cache(), stage.outputs().join("digits.cache"));
        let line = "save-cache examples/digits/digits.onnx --dim N=360 --cost flops --threads 2";
        let words: Vec<String> =
            line.split(' ').map(str::to_owned).chain([file.display().to_string()]).collect();
        let save = || {
            let _ = std::fs::remove_file(&file);
            let output = stage.command(&words).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{said}");
            (said, std::fs::read(&file).unwrap())
        };
        std::fs::create_dir_all(&cache).unwrap();
        allow(&cache, 0o555);
        let (said, made) = save();
        assert!(said.starts_with("note: the plan was not stored in the cache: "), "{said}");
        // If the cache has the entry, only the file is written.
        allow(&cache, 0o755);
        go(&cache, &stage.at.join("other"));
        allow_all(&cache, 0o555);
        assert_eq!(save(), (String::new(), made));
        allow_all(&cache, 0o755);
    }

    #[test]
    fn files_without_read_permission_are_not_called_damaged() {
        let stage = Stage::new("unreadable");
        let cache = stage.cache();
        go(&cache, &stage.at.join("other"));
        let plan = files(&cache.join("plans")).swap_remove(0);
        let before = files(&cache);
        allow(&plan, 0o000);
        for (line, code) in [("cache list", 0), ("cache verify", 1), ("cache prune", 0)] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let output = stage.command(&words).output().unwrap();
            let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
            assert_eq!(output.status.code(), Some(code), "{line}: {said}");
            assert!(!said.contains("it is damaged"), "{line}: {said}");
            assert!(line == "cache prune" || said.contains("it cannot be read: Permission denied"), "{said}");
        }
        assert_eq!(files(&cache), before);
        allow(&plan, 0o644);
    }

    /// Returns the output of a command that must end in time.
    fn ended(command: &mut Command, what: &str) -> Output {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        for _ in 0..6000 {
            if child.try_wait().unwrap().is_some() {
                return child.wait_with_output().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        child.kill().unwrap();
        panic!("{what}: it hangs")
    }

    fn pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn other_kinds_of_files_do_not_block_and_are_replaced() {
        let at = folder("places");
        let (cache, outputs) = (at.join("cache"), at.join("outputs"));
        let expected = expected(&at);
        type Make = fn(&Path);
        let things: [(&str, Make); 6] = [
            ("a pipe", pipe),
            ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
            ("a folder", |path| std::fs::create_dir(path).unwrap()),
            ("a folder with a file", |path| {
                std::fs::create_dir(path).unwrap();
                std::fs::write(path.join("file"), "content").unwrap();
            }),
            ("a link to nothing", |path| std::os::unix::fs::symlink("nothing", path).unwrap()),
            ("a link to a folder", |path| std::os::unix::fs::symlink("..", path).unwrap()),
        ];
        for (what, make) in things {
            for kind in ["plans", "weights"] {
                go(&cache, &outputs);
                let path = files(&cache.join(kind)).swap_remove(0);
                std::fs::remove_file(&path).unwrap();
                if what == "a socket" {
                    // The path of a socket must be short.
                    let short = std::env::temp_dir().join(format!("ovolo-{}", std::process::id()));
                    make(&short);
                    std::fs::rename(short, &path).unwrap();
                } else {
                    make(&path);
                }
                let go = || ran(&ended(&mut run(&cache, &outputs), what), &outputs);
                let ran = go();
                assert!(ran.scores == expected && !ran.cached, "{what} in {kind}");
                assert!(!ran.said.contains("was not stored"), "{what} in {kind}: {}", ran.said);
                let again = go();
                assert!(again.cached && again.said.is_empty(), "{what} in {kind}: {}", again.said);
            }
        }
        // The cache commands report it and remove it.
        let plan = files(&cache.join("plans")).swap_remove(0);
        std::fs::remove_file(&plan).unwrap();
        std::fs::create_dir(&plan).unwrap();
        let verify = |more: &[&str]| {
            let mut command = Command::new(OVOLO);
            command
                .args(["cache", "verify"])
                .args(more)
                .env("OVOLO_CACHE", &cache)
                .env("OVOLO_PIPELINE", "native")
                .output()
                .unwrap()
        };
        let found = String::from_utf8(verify(&[]).stdout).unwrap();
        assert!(found.contains("it is damaged: it is not a plain file"), "{found}");
        assert!(verify(&["--remove"]).status.success() && !plan.exists());
        // Tables may be other kinds of files, too.
        for table in ["machine-2.json", "times-2.txt"] {
            pipe(&cache.join(table));
        }
        let mut list = Command::new(OVOLO);
        let output = ended(
            list.args(["cache", "list"]).env("OVOLO_CACHE", &cache).env("OVOLO_PIPELINE", "native"),
            "tables",
        );
        assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("times-2.txt"));
    }

    /// Another program may truncate a mapped file at any time: the process that reads it ends with a message.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_weight_that_is_truncated_while_it_is_read_ends_the_process_with_a_message() {
        let at = folder("cut-short");
        let (cache, outputs) = (at.join("cache"), at.join("outputs"));
        go(&cache, &outputs);
        let line = "bench examples/digits/digits.onnx --dim N=360 --cost flops --threads 2 --seconds 60";
        let mut command = Command::new(OVOLO);
        command
            .args(line.split(' '))
            .env("OVOLO_CACHE", &cache)
            .env("OVOLO_PIPELINE", "native")
            .current_dir(crate::common::root());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let maps = format!("/proc/{}/maps", child.id());
        while !std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("/weights/")) {
            std::thread::yield_now();
        }
        // By now the process may be comparing weights or running.
        std::thread::sleep(std::time::Duration::from_millis(200));
        for weight in files(&cache.join("weights")) {
            std::fs::OpenOptions::new().write(true).open(weight).unwrap().set_len(0).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("error: a file that is mapped into memory"), "{said}");
        // The next run detects and repairs it.
        assert!(!go(&cache, &outputs).cached);
        assert!(go(&cache, &outputs).cached);
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

    /// Writes fail in the middle of a file, because the shell limits files to some blocks of 512 bytes.
    fn short_of_space(cache: &Path, outputs: &Path, blocks: usize) -> Output {
        let limits = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &limits, "sh", OVOLO]).args(arguments(outputs));
        shell
            .env("OVOLO_CACHE", cache)
            .env("OVOLO_PIPELINE", "native")
            .current_dir(crate::common::root())
            .output()
            .unwrap()
    }

    #[test]
    fn failing_writes_lose_nothing_but_the_entry() {
        let at = folder("full");
        let (cache, outputs) = (at.join("cache"), at.join("outputs"));
        let expected = expected(&at);
        // The scores take 14 kB and must fit; a weight of 70 kB must not.
        for blocks in [32, 48, 64] {
            let ran = ran(&short_of_space(&cache, &outputs, blocks), &outputs);
            assert!(ran.scores == expected && !ran.cached);
            assert!(ran.said.starts_with("note: the plan was not stored in the cache: "), "{}", ran.said);
            assert_eq!(plans(&cache), 0);
            assert!(
                files(&cache).iter().all(|path| path.extension().is_none()),
                "an incomplete file is left"
            );
        }
        assert!(!go(&cache, &outputs).cached);
        assert!(go(&cache, &outputs).cached);
        // A full disk can still be read.
        assert!(ran(&short_of_space(&cache, &outputs, 32), &outputs).cached);
    }
}

#[test]
fn compiling_fills_the_cache_for_runs_and_says_whether_it_was_used() {
    let at = folder("compile");
    let (cache, outputs) = (at.join("cache"), at.join("outputs"));
    let compile = |more: &[&str]| {
        let line = "compile examples/digits/digits.onnx --dim N=360 --cost flops --threads 2";
        let mut command = Command::new(OVOLO);
        command.args(line.split(' ')).args(more).env("OVOLO_CACHE", &cache).env("OVOLO_PIPELINE", "native");
        let output = command.current_dir(crate::common::root()).output().unwrap();
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
    assert!(compile(&["--growth"]).contains("matched"), "only a compilation reports what rules did");
    assert!(go(&cache, &outputs).cached, "a run uses what was compiled");
}

#[test]
fn clearing_leaves_files_of_others() {
    let (cache, outputs) = (folder("foreign"), folder("foreign-outputs"));
    go(&cache, &outputs);
    for (sub, name) in [("weights", "model.bin"), ("plans", "notes.txt")] {
        std::fs::create_dir_all(cache.join(sub)).unwrap();
        std::fs::write(cache.join(sub).join(name), "mine").unwrap();
    }
    let cleared = Command::new(OVOLO)
        .args(["cache", "clear"])
        .env("OVOLO_CACHE", &cache)
        .env("OVOLO_PIPELINE", "native")
        .output()
        .unwrap();
    assert!(cleared.status.success());
    assert_eq!(std::fs::read_to_string(cache.join("weights/model.bin")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(cache.join("plans/notes.txt")).unwrap(), "mine");
    assert!(!go(&cache, &outputs).cached);
}
