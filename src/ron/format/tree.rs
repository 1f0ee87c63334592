//! The tokens of a file as a tree, including comments.

use crate::ron::lexer::{self, Kind, Token};
use crate::ron::{Raw, Text};

/// A comment on its own line.
#[derive(Clone)]
pub struct Comment {
    /// Whether there is a blank line before it.
    pub gap: bool,
    pub text: String,
}

pub enum Node {
    /// A name or a number.
    Leaf(String),
    /// A text: its source with quotes, and its value.
    Text {
        written: String,
        text: String,
    },
    Group(Group),
}

/// The content of a pair of brackets.
pub struct Group {
    /// The name before the brackets.
    pub head: String,
    pub open: char,
    pub items: Vec<Item>,
    /// Comments after the last item.
    pub end: Vec<Comment>,
}

/// A field, an entry, or a value of a list.
pub struct Item {
    pub above: Vec<Comment>,
    /// Whether there is a blank line directly before it.
    pub gap: bool,
    pub key: Option<String>,
    pub node: Node,
    /// A comment at the end of its line.
    pub after: Option<String>,
}

impl Group {
    pub fn close(&self) -> char {
        match self.open {
            '(' => ')',
            '[' => ']',
            _ => '}',
        }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.end.is_empty()
    }
}

impl Item {
    /// Returns whether there is a blank line before the item and its comments.
    pub fn gap_above(&self) -> bool {
        self.above.first().map_or(self.gap, |first| first.gap)
    }

    /// Returns whether the item is a value without a key, a comment, and a blank line before it.
    pub fn is_bare(&self) -> bool {
        self.above.is_empty() && !self.gap && self.key.is_none() && self.after.is_none()
    }
}

/// Returns the whole content of a valid text: its single value, and the comments after it.
pub fn root(text: &str) -> Group {
    let tokens: Vec<Token> = lexer::tokens(text).collect();
    let mut parser = Parser { text, tokens: &tokens, at: 0 };
    let (items, end) = parser.items();
    Group { head: String::new(), open: '(', items, end }
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<(Kind, &'t str)> {
        self.tokens.get(self.at).map(|token| (token.kind, token.span.slice(self.text)))
    }

    fn is(&self, text: &str) -> bool {
        self.peek().is_some_and(|(kind, token)| kind != Kind::Text && token == text)
    }

    /// Returns the number of line breaks between the previous token and the present one.
    fn breaks(&self) -> usize {
        let Some(token) = self.tokens.get(self.at) else { return 0 };
        let before = self.at.checked_sub(1).map_or(0, |at| self.tokens[at].span.end);
        self.text[before..token.span.start].matches('\n').count()
    }

    fn comments(&mut self) -> Vec<Comment> {
        let mut comments = Vec::new();
        while let Some((Kind::Comment, text)) = self.peek() {
            comments.push(Comment { gap: self.breaks() > 1, text: text.trim_end().to_owned() });
            self.at += 1;
        }
        comments
    }

    /// Returns the items up to a closing bracket or the end, and the comments after the last item.
    fn items(&mut self) -> (Vec<Item>, Vec<Comment>) {
        let mut items = Vec::new();
        loop {
            let mut above = self.comments();
            match self.peek() {
                None | Some((Kind::Close, _)) => return (items, above),
                Some(_) => {}
            }
            let gap = self.breaks() > 1;
            let mut node = self.node(&mut above);
            above.extend(self.comments_before(":"));
            let mut key = None;
            if self.is(":") {
                self.at += 1;
                above.extend(self.comments());
                key = Some(match node {
                    Node::Leaf(text) | Node::Text { written: text, .. } => text,
                    Node::Group(group) => group.head,
                });
                node = self.node(&mut above);
            }
            let mut after = self.at_the_end_of_the_line();
            above.extend(self.comments_before(","));
            if self.is(",") {
                self.at += 1;
                after = match (after, self.at_the_end_of_the_line()) {
                    (Some(one), Some(other)) => Some(format!("{one} {other}")),
                    (one, other) => one.or(other),
                };
            }
            items.push(Item { above, gap, key, node, after });
        }
    }

    /// Returns the comments before this token.
    fn comments_before(&mut self, text: &str) -> Vec<Comment> {
        let from = self.at;
        let comments = self.comments();
        if self.is(text) {
            return comments;
        }
        self.at = from;
        Vec::new()
    }

    /// Returns the comment at the end of the previous token's line.
    fn at_the_end_of_the_line(&mut self) -> Option<String> {
        let (Kind::Comment, text) = self.peek()? else { return None };
        let token = self.tokens[self.at];
        let rest = self.text[token.span.end..].trim_start_matches([' ', '\t', '\r', ',']);
        if self.breaks() > 0 || !(rest.is_empty() || rest.starts_with('\n')) {
            return None;
        }
        self.at += 1;
        Some(text.trim_end().to_owned())
    }

    fn node(&mut self, above: &mut Vec<Comment>) -> Node {
        above.extend(self.comments());
        let mut head = String::new();
        while let Some((kind, text)) = self.peek() {
            match kind {
                Kind::Text if head.is_empty() => {
                    self.at += 1;
                    let raw = Raw::new(self.text, text);
                    let said = Text::parse(raw).map(|text| text.text);
                    let written = text.to_owned();
                    return match said {
                        Some(text) => Node::Text { written, text },
                        None => Node::Leaf(written),
                    };
                }
                Kind::Open => {
                    self.at += 1;
                    let (items, end) = self.items();
                    self.at += 1;
                    return Node::Group(Group { head, open: text.chars().next().unwrap_or('('), items, end });
                }
                Kind::Comment => {
                    let from = self.at;
                    let comments = self.comments();
                    if head.is_empty() || !self.peek().is_some_and(|(kind, _)| kind == Kind::Open) {
                        self.at = from;
                        break;
                    }
                    above.extend(comments);
                }
                Kind::Close => break,
                _ if matches!(text, "," | ":") => break,
                _ => {
                    head.push_str(text);
                    self.at += 1;
                }
            }
        }
        Node::Leaf(head)
    }
}
