//! Patterns of op names: `*` stands for any text, `?` for one character.

/// Returns whether a pattern fits all of a text: `*` stands for any text, `?` for one character.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    // The places of the last star, and of the text up to which it was tried.
    let (mut at, mut reached, mut star) = (0, 0, None);
    while reached < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, reached));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[reached] => {
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
    pattern[at..].iter().all(|one| *one == '*')
}
