//! Tests of `src/file.rs`.

use ovolo::file::{same, spare, update, write};
use std::fs::{self, File};
use std::time::Duration;

#[test]
fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
    let folder = std::env::temp_dir().join(format!("ovolo-file-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("one");
    write(&path, &[b"old"]).expect("it is written");
    write(&path, &[b"n", b"", b"ew"]).expect("it is replaced");
    assert_eq!(fs::read(&path).expect("it is read"), b"new");
    assert!(write(&folder.join("no/such/folder"), &[b"x"]).is_err());
    assert!(write(&folder, &[b"x"]).is_err(), "a folder is no file");
    assert_eq!(fs::read_dir(&folder).expect("it is listed").count(), 1);
    fs::remove_dir_all(&folder).expect("it is removed");
}

/// Several threads count in a file, each time from what is there.
#[test]
fn updates_follow_one_another() {
    const TIMES: usize = 50;
    let folder = std::env::temp_dir().join(format!("ovolo-update-{}", std::process::id()));
    let path = folder.join("new").join("count.txt");
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).expect("text").parse::<usize>().expect("a number");
    let count = || {
        for _ in 0..TIMES {
            let next = |there: Option<Vec<u8>>| there.map_or(1, |bytes| number(&bytes) + 1).to_string();
            update(&path, |there| next(there).into_bytes()).expect("it is written");
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(count)));
    assert_eq!(number(&fs::read(&path).expect("it is read")), 3 * TIMES);
    // What is no plain file has no content, and is replaced.
    #[cfg(unix)]
    {
        let link = folder.join("link");
        std::os::unix::fs::symlink("/dev/null", &link).expect("it is linked");
        update(&link, |there| there.map_or(b"new".to_vec(), |_| b"old".to_vec())).expect("it is written");
        assert_eq!(fs::read(&link).expect("it is read"), b"new");
    }
    fs::remove_dir_all(&folder).expect("it is removed");
}

#[test]
#[cfg(unix)]
fn a_file_is_the_same_by_any_link() {
    let folder = std::env::temp_dir().join(format!("ovolo-same-{}", std::process::id()));
    fs::create_dir_all(folder.join("in")).expect("a folder");
    let at = |name: &str| folder.join(name);
    fs::write(at("one"), "text").expect("it is written");
    fs::write(at("two"), "text").expect("it is written");
    fs::hard_link(at("one"), at("hard")).expect("it is linked");
    std::os::unix::fs::symlink(at("one"), at("soft")).expect("it is linked");
    for name in ["one", "hard", "soft", "in/../one"] {
        assert!(same(&at("one"), &at(name)), "{name}");
        assert!(spare(&at(name), [at("two").as_path(), at("one").as_path()]).is_err(), "{name}");
    }
    assert!(!same(&at("one"), &at("two")) && !same(&at("three"), &at("three")));
    assert_eq!(spare(&at("two"), [at("one").as_path()]), Ok(()));
    fs::remove_dir_all(&folder).expect("it is removed");
}

#[test]
fn what_killed_writers_left_is_swept_once_it_is_old() {
    let folder = std::env::temp_dir().join(format!("ovolo-sweep-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let old = std::time::SystemTime::now() - Duration::from_secs(2 * 3600);
    let names = ["one.12-0.part", "one.12-x.part", "one.1-2.3.part", "two.12-0.part", "one.13-0.part"];
    for name in names {
        let file = File::create(folder.join(name)).expect("it is made");
        if name != "one.13-0.part" {
            file.set_modified(old).expect("it looks old");
        }
    }
    write(&folder.join("one"), &[b"new"]).expect("it is written");
    let left = |name: &str| folder.join(name).exists();
    assert_eq!(names.map(left), [false, true, true, true, true]);
    fs::remove_dir_all(&folder).expect("it is removed");
}
