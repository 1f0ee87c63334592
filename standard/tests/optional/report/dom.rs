//! The parts of a document that the tests need, from a browser's `--dump-dom`.

/// An element.
#[derive(Debug, Default)]
pub struct Element {
    /// Its tag.
    pub tag: String,
    /// Its own text, without that of inner elements.
    pub text: String,
    attributes: Vec<(String, String)>,
    parent: Option<usize>,
}

impl Element {
    /// The value of an attribute.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Its classes.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.get("class").unwrap_or_default().split_whitespace()
    }
}

/// The elements of a document in order.
pub struct Dom(Vec<Element>);

/// Elements without an end tag.
const VOID: &[&str] = &["meta", "link", "input", "br", "hr", "img"];

impl Dom {
    /// Reads a browser's output: every attribute is in quotes, and every element is closed.
    pub fn read(text: &str) -> Self {
        let mut elements: Vec<Element> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            if let Some(parent) = open.last() {
                elements[*parent].text.push_str(&plain(&rest[..at]));
            }
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('/') {
                open.pop();
                rest = after.split_once('>').unwrap().1;
                continue;
            }
            if rest.starts_with('!') {
                rest = rest.split_once('>').unwrap().1;
                continue;
            }
            let (element, after) = start(rest);
            rest = after;
            let raw = matches!(element.tag.as_str(), "script" | "style");
            let void = VOID.contains(&element.tag.as_str());
            let end = format!("</{}>", element.tag);
            elements.push(Element { parent: open.last().copied(), ..element });
            if raw {
                rest = rest.split_once(&end).unwrap().1;
            } else if !void {
                open.push(elements.len() - 1);
            }
        }
        assert!(open.is_empty(), "not closed: {open:?}");
        Self(elements)
    }

    /// Every element with a tag.
    pub fn all<'a>(&'a self, tag: &'a str) -> impl Iterator<Item = &'a Element> {
        self.0.iter().filter(move |element| element.tag == tag)
    }

    /// The element with this id.
    pub fn id(&self, id: &str) -> &Element {
        &self.0[self.position(id)]
    }

    /// The text of the element with this id.
    pub fn text(&self, id: &str) -> &str {
        &self.id(id).text
    }

    /// Everything inside the element with this id.
    pub fn within(&self, id: &str) -> impl Iterator<Item = &Element> {
        let root = self.position(id);
        let inside = move |mut at: usize| loop {
            match self.0[at].parent {
                Some(parent) if parent == root => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        };
        self.0.iter().enumerate().filter(move |(at, _)| inside(*at)).map(|(_, element)| element)
    }

    /// The elements directly inside another.
    pub fn children<'a>(&'a self, parent: &'a Element) -> impl Iterator<Item = &'a Element> {
        let at = self.0.iter().position(|element| std::ptr::eq(element, parent));
        self.0.iter().filter(move |element| element.parent == at)
    }

    fn position(&self, id: &str) -> usize {
        let at = self.0.iter().position(|element| element.get("id") == Some(id));
        at.unwrap_or_else(|| panic!("there is no element `{id}`"))
    }
}

/// Parses a start tag, and returns the element with the text after the tag.
fn start(text: &str) -> (Element, &str) {
    let end = text.find(|c: char| c.is_whitespace() || c == '>').unwrap();
    let mut element = Element { tag: text[..end].to_owned(), ..Element::default() };
    let mut rest = text[end..].trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('>') {
            return (element, after);
        }
        let (name, after) = rest.split_once("=\"").unwrap();
        let (value, after) = after.split_once('"').unwrap();
        element.attributes.push((name.to_owned(), plain(value)));
        rest = after.trim_start();
    }
}

/// Replaces character references in a text.
fn plain(text: &str) -> String {
    let references = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&nbsp;", "\u{a0}"), ("&amp;", "&")];
    references.iter().fold(text.to_owned(), |text, (reference, sign)| text.replace(reference, sign))
}
