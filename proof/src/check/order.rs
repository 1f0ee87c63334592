//! Left sides in every order of the operands of commutative ops, because patterns match in all of them.

use ovolo::rule::Pattern;

/// The most orders that are tried, for patterns with many commutative ops.
const MOST: usize = 64;

/// Returns the patterns with the operands of commutative ops in every order, starting with the written one.
pub(super) fn orders(patterns: &[Pattern]) -> Vec<Vec<Pattern>> {
    patterns.iter().fold(vec![Vec::new()], |lists, pattern| {
        let here = exchanged(pattern);
        let longer = lists.iter().flat_map(|list| {
            here.iter().map(move |one| list.iter().chain([one]).cloned().collect::<Vec<Pattern>>())
        });
        longer.take(MOST).collect()
    })
}

fn exchanged(pattern: &Pattern) -> Vec<Pattern> {
    let Pattern::Op { op, children, attrs, rest_attrs } = pattern else { return vec![pattern.clone()] };
    let with = |children: Vec<Pattern>| Pattern::Op {
        op: *op,
        children,
        attrs: attrs.clone(),
        rest_attrs: *rest_attrs,
    };
    let mut lists = orders(children);
    let two = children.len() == 2 && children.iter().all(|child| child.spread().is_none());
    if op.flags.commutative && two {
        let crossed: Vec<Vec<Pattern>> =
            lists.iter().map(|list| list.iter().rev().cloned().collect()).collect();
        lists.extend(crossed);
    }
    lists.into_iter().map(with).take(MOST).collect()
}
