//! Regular expressions of RE2, written for the crate `regex`.
//!
//! Both have much the same syntax, but not all of it: RE2's classes `\w`, `\d`, `\s` and its boundary `\b` are of ASCII, and
//! those of the crate are of Unicode; `\<` is a letter in RE2 and the start of a word in the crate; within a class, RE2 takes
//! `[`, `&&`, `--` and `~~` as letters, and the crate makes sets of them. So each part of a pattern is read as RE2's reference
//! tells it (<https://github.com/google/re2/wiki/Syntax>), and written so that the crate can only take it that way. What RE2
//! refuses is refused. Of what it takes, `\C` (a single byte) is refused as well, since texts have no single bytes here.

/// The most repetitions that RE2 allows to count.
const MOST: u32 = 1000;

/// The names of classes that may stand in a class, as in `[[:alpha:]]`.
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// A part of a pattern that RE2 does not allow.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mistake {
    #[error("`{0}` is no escape that RE2 has and ovolo can match")]
    Escape(String),
    #[error("a class has no `]`")]
    Class,
    #[error("`{0}` is no range of letters")]
    Range(String),
    #[error("`{0}` is no class that has a name")]
    Name(String),
    #[error("`{0}` are no flags of RE2")]
    Flags(String),
    #[error("`{0}` repeats a repetition")]
    Twice(String),
    #[error("`{0}` counts to more than {MOST}")]
    Many(String),
}

/// What an escape stands for, as the crate writes it.
enum Escape {
    /// One letter.
    Letter(String),
    /// A class, which may stand in another class.
    Class(String),
    /// A place in the text, or a quoted text.
    Other(String),
}

/// Returns the expression by which the crate matches what a pattern of RE2 matches.
pub(super) fn of_re2(pattern: &str) -> Result<String, Mistake> {
    let mut result = String::new();
    let mut rest = pattern;
    let mut repeated = false;
    while let Some(letter) = rest.chars().next() {
        let (length, repeats) = match letter {
            '*' | '+' | '?' => (1, true),
            '{' => repetition(rest)?.map_or((0, false), |length| (length, true)),
            _ => (0, false),
        };
        if repeats {
            // A question mark behind a repetition makes it take as little as it can.
            let length = length + usize::from(rest[length..].starts_with('?'));
            if repeated {
                return Err(Mistake::Twice(rest[..length].to_owned()));
            }
            result += &rest[..length];
            rest = &rest[length..];
            repeated = true;
            continue;
        }
        repeated = false;
        let (length, written) = match letter {
            '\\' => match escape(rest, false)? {
                (length, Escape::Letter(text) | Escape::Class(text) | Escape::Other(text)) => (length, text),
            },
            '[' => class(rest)?,
            '(' => group(rest)?,
            '.' | '|' | '^' | '$' | ')' => (1, letter.to_string()),
            _ => (letter.len_utf8(), quoted(letter)),
        };
        result += &written;
        rest = &rest[length..];
    }
    Ok(result)
}

/// Returns a letter as a letter.
fn quoted(letter: char) -> String {
    regex::escape(letter.encode_utf8(&mut [0; 4]))
}

/// Returns the length of a counted repetition, `{2}`, `{2,}` or `{2,5}`; `None` if the brace is a letter.
fn repetition(text: &str) -> Result<Option<usize>, Mistake> {
    let Some(end) = text.find('}') else { return Ok(None) };
    let (least, most) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !number(least) || !(most.is_empty() || number(most)) {
        return Ok(None);
    }
    let small = |text: &str| text.is_empty() || text.parse().is_ok_and(|count: u32| count <= MOST);
    match small(least) && small(most) {
        true => Ok(Some(end + 1)),
        false => Err(Mistake::Many(text[..=end].to_owned())),
    }
}

/// Returns the length of the start of a group, and what is written for it.
fn group(text: &str) -> Result<(usize, String), Mistake> {
    let Some(flags) = text.strip_prefix("(?") else { return Ok((1, "(".to_owned())) };
    if flags.starts_with("P<") || flags.starts_with('<') {
        let end = text.find('>').map_or(text.len(), |end| end + 1);
        return Ok((end, text[..end].to_owned()));
    }
    let end = flags.find([':', ')']).unwrap_or(flags.len());
    let length = 2 + end + usize::from(flags[end..].starts_with(':'));
    match flags[..end].chars().all(|flag| "imsU-".contains(flag)) {
        true => Ok((length, text[..length].to_owned())),
        false => Err(Mistake::Flags(flags[..end].to_owned())),
    }
}

/// Returns the length of a class, and what is written for it.
fn class(text: &str) -> Result<(usize, String), Mistake> {
    let mut result = "[".to_owned();
    let mut rest = &text[1..];
    if let Some(after) = rest.strip_prefix('^') {
        result.push('^');
        rest = after;
    }
    let mut first = true;
    loop {
        if rest.is_empty() {
            return Err(Mistake::Class);
        }
        if rest.starts_with(']') && !first {
            return Ok((text.len() - rest.len() + 1, result + "]"));
        }
        first = false;
        let start = rest;
        let (length, item) = member(rest)?;
        rest = &rest[length..];
        let (Escape::Letter(written) | Escape::Class(written) | Escape::Other(written)) = &item;
        result += written;
        // A minus sign at the end of a class is a letter.
        let Some(after) = rest.strip_prefix('-').filter(|after| !after.starts_with(']') && !after.is_empty())
        else {
            continue;
        };
        let Escape::Letter(_) = item else { continue };
        let (length, last) = member(after)?;
        let range = &start[..start.len() - after.len() + length];
        let Escape::Letter(last) = last else { return Err(Mistake::Range(range.to_owned())) };
        result.push('-');
        result += &last;
        rest = &after[length..];
    }
}

/// Returns the length of a member of a class, and what is written for it.
fn member(text: &str) -> Result<(usize, Escape), Mistake> {
    if let Some(end) = text.strip_prefix("[:").and_then(|name| name.find(":]")) {
        let (whole, name) = (&text[..end + 4], &text[2..end + 2]);
        return match CLASSES.contains(&name.trim_start_matches('^')) {
            true => Ok((whole.len(), Escape::Class(whole.to_owned()))),
            false => Err(Mistake::Name(whole.to_owned())),
        };
    }
    match text.chars().next() {
        None => Err(Mistake::Class),
        Some('\\') => escape(text, true),
        Some(letter) => Ok((letter.len_utf8(), Escape::Letter(quoted(letter)))),
    }
}

/// Returns the length of an escape, and what it stands for.
fn escape(text: &str, in_class: bool) -> Result<(usize, Escape), Mistake> {
    let Some(letter) = text[1..].chars().next() else { return Err(Mistake::Escape(text.to_owned())) };
    let whole = &text[..1 + letter.len_utf8()];
    let set = |text: &str| Ok((2, Escape::Class(text.to_owned())));
    let place = |text: &str| Ok((2, Escape::Other(text.to_owned())));
    match letter {
        'w' => set("[0-9A-Za-z_]"),
        'W' => set("[^0-9A-Za-z_]"),
        'd' => set("[0-9]"),
        'D' => set("[^0-9]"),
        's' => set(r"[\t\n\f\r ]"),
        'S' => set(r"[^\t\n\f\r ]"),
        'p' | 'P' => property(text),
        'a' | 'f' | 'n' | 'r' | 't' | 'v' => Ok((2, Escape::Letter(whole.to_owned()))),
        'x' => hexadecimal(text),
        '0'..='7' => octal(text),
        'b' if !in_class => place(r"(?-u:\b)"),
        'B' if !in_class => place(r"(?-u:\B)"),
        'A' | 'z' if !in_class => place(whole),
        'Q' if !in_class => {
            let end = text[2..].find(r"\E");
            let quoted = &text[2..end.map_or(text.len(), |end| 2 + end)];
            let length = end.map_or(text.len(), |end| end + 4);
            Ok((length, Escape::Other(regex::escape(quoted))))
        }
        _ if letter.is_ascii_punctuation() => Ok((2, Escape::Letter(quoted(letter)))),
        _ => Err(Mistake::Escape(whole.to_owned())),
    }
}

/// Reads `\pL`, `\p{Greek}` and `\p{^Greek}`, which is `\P{Greek}`.
fn property(text: &str) -> Result<(usize, Escape), Mistake> {
    let Some(braced) = text[2..].strip_prefix('{') else {
        let length = text[2..].chars().next().map_or(2, |letter| 2 + letter.len_utf8());
        return Ok((length, Escape::Class(text[..length].to_owned())));
    };
    let Some(end) = braced.find('}') else { return Err(Mistake::Escape(text.to_owned())) };
    let not = text.starts_with(r"\P") != braced.starts_with('^');
    let name = braced[..end].trim_start_matches('^');
    Ok((4 + end, Escape::Class(format!(r"\{}{{{name}}}", if not { 'P' } else { 'p' }))))
}

/// Reads `\x41` and `\x{10FFFF}`.
fn hexadecimal(text: &str) -> Result<(usize, Escape), Mistake> {
    let (digits, length) = match text[2..].strip_prefix('{') {
        Some(braced) => braced.find('}').map(|end| (&braced[..end], end + 4)),
        None => text.get(2..4).map(|digits| (digits, 4)),
    }
    .ok_or_else(|| Mistake::Escape(text.to_owned()))?;
    let number = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    let letter = number.ok_or_else(|| Mistake::Escape(text[..length].to_owned()))?;
    Ok((length, Escape::Letter(format!(r"\x{{{:x}}}", u32::from(letter)))))
}

/// Reads up to three octal digits. A single one but zero would be the number of a group, which RE2 does not have.
fn octal(text: &str) -> Result<(usize, Escape), Mistake> {
    let digits = text[1..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    let number = u32::from_str_radix(&text[1..1 + digits], 8).unwrap_or(0);
    match digits > 1 || number == 0 {
        true => Ok((1 + digits, Escape::Letter(format!(r"\x{{{number:x}}}")))),
        false => Err(Mistake::Escape(text[..2].to_owned())),
    }
}
