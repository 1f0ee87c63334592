//! Runs a headless browser and reads what it renders.

use crate::report::dom::Dom;
use std::path::Path;
use std::process::Command;

/// The command of the browser.
pub fn browser() -> Result<String, String> {
    let named = std::env::var("OVOLO_BROWSER").ok();
    let known = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let works = |name: &String| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let mut names = named.into_iter().chain(known);
    names.find(works).ok_or_else(|| "install it, or set OVOLO_BROWSER to its path".to_owned())
}

/// Returns the elements of a page after its script has run. `at` is added to the address, such as `#step=3`.
pub fn drawn(browser: &str, page: &Path, at: &str) -> Dom {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,1000"])
        .arg(format!("--user-data-dir={}", page.with_extension("profile").display()))
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{}{at}", page.display()))
        .output()
        .unwrap();
    let dom = Dom::read(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(dom.text("errors"), "", "the page's script failed");
    let root = dom.all("html").next().expect("the browser prints a document");
    assert_eq!(root.get("data-drawn"), Some("true"), "{}", String::from_utf8_lossy(&output.stderr));
    dom
}
