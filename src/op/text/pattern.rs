//! Regular expressions of RE2, written for the crate `regex`.
//!
//! The crate follows RE2 but for a few things, of which these matter: its classes `\w`, `\d` and `\s` and its boundary `\b`
//! are those of Unicode, where RE2's are of ASCII (<https://github.com/google/re2/wiki/Syntax>); `[`, `&&` and `~~` within a
//! class make sets of classes, where RE2 takes the letters; and it has no `\Q…\E`, which quotes a text.

/// Returns the expression by which the crate matches what a pattern of RE2 matches.
pub(super) fn of_re2(pattern: &str) -> String {
    let mut result = String::new();
    let mut rest = pattern;
    let mut class = false;
    while let Some(letter) = rest.chars().next() {
        let length = letter.len_utf8();
        let (taken, written) = match letter {
            '\\' => escape(rest),
            '[' if class && !rest.starts_with("[:") => (length, r"\[".to_owned()),
            '[' if class => {
                let end = rest.find(":]").map_or(rest.len(), |end| end + 2);
                (end, rest[..end].to_owned())
            }
            '[' => {
                class = true;
                // A bracket that comes first in a class is a letter.
                let first = ["[^]", "[]"].into_iter().find(|start| rest.starts_with(start));
                first.map_or((length, "[".to_owned()), |start| (start.len(), start.replace(']', r"\]")))
            }
            ']' => {
                class = false;
                (length, "]".to_owned())
            }
            '&' | '~' if class => (length, format!("\\{letter}")),
            _ => (length, letter.to_string()),
        };
        result += &written;
        rest = &rest[taken..];
    }
    result
}

/// Returns the length of the escape that a text begins with, and what is written for it.
fn escape(text: &str) -> (usize, String) {
    let Some(letter) = text[1..].chars().next() else { return (1, text.to_owned()) };
    let ascii = match letter {
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'b' => r"(?-u:\b)",
        'Q' => {
            let quoted = text[2..].find(r"\E").map_or(&text[2..], |end| &text[2..2 + end]);
            return ((quoted.len() + 4).min(text.len()), regex::escape(quoted));
        }
        _ => return (1 + letter.len_utf8(), text[..1 + letter.len_utf8()].to_owned()),
    };
    (2, ascii.to_owned())
}
