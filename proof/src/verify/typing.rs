//! Compares the types of both sides without computing values, which is fast enough to do whenever rules are
//! checked.
//!
//! Takes a rule, generates left sides that its guards accept, and types the right sides. A rule is wrong if
//! the types differ on any of them (compilation would stop there), or if no right side can be typed at all
//! (the rule would silently never fire).

use super::build;
use super::check::{Difference, Fault};
use super::draft::Draft;
use super::generate::Generator;
use super::palette::Palette;
use super::refusal::Reasons;
use super::rng::Rng;
use super::untyped::Untyped;
use super::{Judge, Tried, each, small};
use ovolo::rule::Rule;
use ovolo::rule::print::Names;
use std::sync::Arc;

/// Instances with types on both sides that are needed before a rule counts as well typed.
const TYPED: usize = 60;
/// Left sides without a typed right side, before the right side counts as having no type.
const UNTYPED: usize = 200;
/// The most left sides that are generated, because guards refuse some.
const TRIES: usize = 20_000;

/// The verdict on the types of a rule's sides.
#[derive(Clone, Debug, PartialEq)]
pub enum Typing {
    /// They are equal wherever both sides have one.
    Alike,
    /// They differ.
    Clash(Clash),
    /// Too few left sides were found that the guards accept; the text is the most frequent refusal.
    Undrawn(String),
}

/// A small instance on which the types of the sides differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Clash {
    /// The position of the side.
    pub side: usize,
    /// The values of the variables: `?x: f32[2,3], ?p: [1,0]`.
    pub variables: String,
    /// The type of the left side.
    pub left: String,
    /// The type of the right side, or why it has none.
    pub right: Result<String, Untyped>,
}

/// Compares the types of one rule.
fn typing(rule: &Rule) -> Typing {
    let generator = Generator::new(rule, &Palette::WIDE);
    let (mut typed, mut untyped, mut first) = (0, 0, None);
    let mut refused = Reasons::default();
    for number in 0..TRIES {
        let mut rng = Rng::new(0, &rule.name, number as u64);
        let draft = match generator.left(&mut rng) {
            Ok(draft) => draft,
            Err(why) => {
                refused.add(why.into());
                continue;
            }
        };
        match differ(rule, draft.clone()) {
            Tried::Agrees(_) => typed += 1,
            Tried::Wrong(draft, difference) => {
                return Typing::Clash(shown(rule, (draft, difference), differ));
            }
            Tried::Refused(refusal) => match fails(rule, draft) {
                Tried::Wrong(draft, difference) => {
                    untyped += 1;
                    first.get_or_insert((draft, difference));
                }
                _ => refused.add(refusal),
            },
        }
        if typed == TYPED || typed == 0 && untyped == UNTYPED {
            break;
        }
    }
    match first {
        _ if typed > 0 => Typing::Alike,
        Some(found) if untyped == UNTYPED => Typing::Clash(shown(rule, found, fails)),
        _ => {
            let most = refused.most(1).pop();
            Typing::Undrawn(most.map(|reason| reason.text).unwrap_or_default())
        }
    }
}

/// Compares the types of each rule on some threads, in the order of the rules. `done` is called with each
/// rule.
pub fn typings(rules: &[Arc<Rule>], threads: usize, done: &(dyn Fn(&Rule) + Sync)) -> Vec<Typing> {
    each(rules, threads, &|rule| {
        let typing = typing(rule);
        done(rule);
        Some(typing)
    })
}

/// Shrinks the instance and describes it.
fn shown(rule: &Rule, found: (Draft, Difference), judge: Judge) -> Clash {
    let (draft, difference) = small(rule, 0, found, judge);
    let side = difference.side;
    let type_of = |roots: &[usize]| roots.get(side).map(|root| draft.values[*root].ty.to_string());
    Clash {
        side,
        variables: variables(rule, &draft),
        left: type_of(&draft.left).unwrap_or_default(),
        right: match difference.fault {
            Fault::Untyped(why) => Err(why),
            _ => Ok(type_of(&draft.right).unwrap_or_default()),
        },
    }
}

/// Wrong if both sides have a type and the types differ.
fn differ(rule: &Rule, mut draft: Draft) -> Tried {
    if let Err(refusal) = build::sides(rule, &mut draft) {
        return Tried::Refused(refusal);
    }
    match Fault::of_types(&draft) {
        Some((side, fault)) => Tried::Wrong(draft, Difference { side, fault, at: None }),
        None => Tried::Agrees(draft),
    }
}

/// Wrong if the guards accept the instance and a right side has no type.
fn fails(rule: &Rule, mut draft: Draft) -> Tried {
    if let Err(refusal) = build::admit(rule, &draft) {
        return Tried::Refused(refusal);
    }
    match build::right(rule, &mut draft) {
        Err(why) => {
            let side = draft.right.len().min(draft.left.len().saturating_sub(1));
            Tried::Wrong(draft, Difference { side, fault: Fault::Untyped(why), at: None })
        }
        Ok(()) => Tried::Agrees(draft),
    }
}

/// The values of the variables of the left sides.
fn variables(rule: &Rule, draft: &Draft) -> String {
    let names = Names::new(rule);
    let ty = |at: &usize| draft.values[*at].ty.to_string();
    let operands = draft.operands.iter().zip(&names.operands);
    let operands = operands.filter_map(|(at, name)| Some(format!("{name}: {}", ty(at.as_ref()?))));
    let rests = draft.rests.iter().zip(&names.rests).filter_map(|(rest, name)| {
        let types: Vec<String> = rest.as_ref()?.iter().map(ty).collect();
        Some(format!("{name}: {}", if types.is_empty() { "none".to_owned() } else { types.join(" ") }))
    });
    let attrs = draft.attrs.iter().zip(&names.attrs);
    let attrs = attrs.filter_map(|(attr, name)| Some(format!("{name}: {}", attr.as_ref()?)));
    let others = draft.rest_attrs.iter().zip(&names.rest_attrs).filter_map(|(others, name)| {
        let written: Vec<String> =
            others.as_ref()?.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        (!written.is_empty()).then(|| format!("{name}: {{{}}}", written.join(", ")))
    });
    operands.chain(rests).chain(attrs).chain(others).collect::<Vec<_>>().join(", ")
}
