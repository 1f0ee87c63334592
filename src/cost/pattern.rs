//! Patterns of op names: `*` stands for any text, `?` for one character.

/// Returns whether a pattern fits all of a text: `*` stands for any text, `?` for one character.
pub fn fits(pattern: &str, text: &str) -> bool {
    // The cases of a price list try hundreds of patterns for each kernel, so names are compared as they are stored.
    if pattern.is_ascii() && text.is_ascii() {
        return covers(pattern.as_bytes(), text.as_bytes(), b'*', b'?');
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    covers(&pattern, &text, '*', '?')
}

/// Returns whether a pattern fits all of a text, of which `any` stands for any part and `one` for one element.
fn covers<T: Copy + PartialEq>(pattern: &[T], text: &[T], any: T, one: T) -> bool {
    // The places of the last star, and of the text up to which it was tried.
    let (mut at, mut reached, mut star) = (0, 0, None);
    while reached < text.len() {
        match pattern.get(at) {
            Some(wanted) if *wanted == any => {
                star = Some((at, reached));
                at += 1;
            }
            Some(wanted) if *wanted == one || *wanted == text[reached] => {
                at += 1;
                reached += 1;
            }
            _ => match star {
                Some((place, tried)) => {
                    (at, reached) = (place + 1, tried + 1);
                    star = Some((place, tried + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|wanted| *wanted == any)
}
