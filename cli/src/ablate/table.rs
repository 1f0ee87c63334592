//! The table of `ovolo ablate`.

use ovolo_proof::ablate::{By, Gain, Row};
use std::fmt::Write;

/// What the first line of the table says.
pub(super) struct Head<'a> {
    /// The kind of parts.
    pub by: By,
    /// The number of cases: a case is a model with a pipeline.
    pub cases: usize,
    /// The number of examples with a pipeline that does not compile them.
    pub left_out: usize,
    /// The pipelines.
    pub pipelines: &'a [String],
    /// The cost model.
    pub cost: &'a str,
    /// The threads.
    pub threads: usize,
}

/// Returns a JSON object for each row.
pub(super) fn json(by: By, rows: &[Row]) -> String {
    let gain = |gain: &Option<Gain>| {
        gain.as_ref().map(|gain| serde_json::json!({ "case": gain.case, "share": gain.share }))
    };
    let line = |row: &Row| {
        let value = serde_json::json!({
            "by": by.to_string(), "name": row.name, "met": row.met, "used": row.used, "wins": row.wins,
            "needed": row.needed, "refused": row.refused, "gain": gain(&row.gain), "loss": gain(&row.loss),
            "seconds": row.seconds,
        });
        format!("{value}\n")
    };
    rows.iter().map(line).collect()
}

/// Returns the table, and below it the names of those that win nowhere.
pub(super) fn text(head: &Head<'_>, rows: &[Row]) -> String {
    let compared = !matches!(head.by, By::Rule | By::File | By::Kernel);
    let unit = if head.by.counts_bytes() { "bytes of the arenas" } else { "cost" };
    let mut text = format!(
        "{} cases (a model with a pipeline) with the pipelines {}; {unit} by `{}`, {} thread(s)\n",
        head.cases,
        head.pipelines.join(", "),
        head.cost,
        head.threads
    );
    if head.left_out > 0 {
        let _ = writeln!(text, "{} cases of examples do not compile, and are left out", head.left_out);
    }
    let width = rows.iter().map(|row| row.name.len()).chain([head.by.to_string().len()]).max().unwrap_or(0);
    let _ = writeln!(text, "{:width$}   met  used  wins  largest gain", head.by.to_string());
    for row in rows {
        let _ = write!(text, "{:width$} {:5} {:5} {:5}  ", row.name, row.met, row.used, row.wins);
        let mut words = Vec::new();
        if let Some(Gain { case, share }) = &row.gain {
            words.push(format!("{:+.2} % {case}", share * 100.0));
        }
        if let Some(case) = &row.needed {
            words.push(format!("no plan without it: {case}"));
        }
        if compared && let Some(Gain { case, share }) = &row.loss {
            words.push(format!("at worst {:.2} % above the best other: {case}", share * 100.0));
        }
        if row.refused > 0 {
            words.push(format!("gives no plan {} time(s)", row.refused));
        }
        if let Some(seconds) = row.seconds {
            words.push(format!("{:.1} ms in all", seconds * 1e3));
        }
        let _ = writeln!(text, "{}", if words.is_empty() { "none".to_owned() } else { words.join("; ") });
    }
    let nowhere: Vec<&str> = rows.iter().filter(|row| row.wins == 0).map(|row| row.name.as_str()).collect();
    let _ = match (rows.len(), nowhere.len()) {
        (0, _) => writeln!(text, "nothing was measured"),
        (_, 0) => writeln!(text, "each one wins somewhere"),
        _ => writeln!(text, "win nowhere ({}): {}", nowhere.len(), nowhere.join(", ")),
    };
    text
}
