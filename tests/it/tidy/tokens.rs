//! Rust source as a flat row of tokens, each with its line. Of comments only doc comments are read.

use std::ops::Range;

use proc_macro2::{Delimiter, LineColumn, Spacing, Span, TokenStream, TokenTree};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    /// The contents of a string literal.
    Text,
    /// One line of a doc comment.
    Doc,
    /// Punctuation, a bracket, or a literal that is no string.
    Other,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) line: usize,
    column: usize,
}

impl Token {
    fn new(kind: Kind, text: String, span: Span) -> Self {
        let LineColumn { line, column } = span.start();
        Self {
            kind,
            text,
            line,
            column,
        }
    }

    fn position(&self) -> LineColumn {
        LineColumn {
            line: self.line,
            column: self.column,
        }
    }

    pub(super) fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }

    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Other) && self.text == text
    }
}

/// Tokens of a piece of source; `::` is one token.
pub(super) fn tokens(stream: TokenStream) -> Vec<Token> {
    let mut found = Vec::new();
    flatten(stream, &mut found);
    found
}

/// Tokens inside `ranges`, and those outside.
pub(super) fn split(all: Vec<Token>, ranges: &[Range<LineColumn>]) -> (Vec<Token>, Vec<Token>) {
    all.into_iter()
        .partition(|token| ranges.iter().any(|range| range.contains(&token.position())))
}

/// Lines at which `pattern` begins, a piece of code.
pub(super) fn lines_of(tokens: &[Token], pattern: &str) -> Vec<usize> {
    let pattern: Vec<String> = pattern.split(' ').map(str::to_owned).collect();
    tokens
        .windows(pattern.len())
        .filter(|window| window.iter().zip(&pattern).all(|(token, part)| token.is(part)))
        .map(|window| window[0].line)
        .collect()
}

fn flatten(stream: TokenStream, found: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let span = tree.span();
        let mut push = |kind, text| found.push(Token::new(kind, text, span));
        match tree {
            TokenTree::Ident(word) => {
                let word = word.to_string();
                push(Kind::Word, word.strip_prefix("r#").unwrap_or(&word).to_owned());
            }
            TokenTree::Literal(literal) => match syn::Lit::new(literal) {
                syn::Lit::Str(text) => push(Kind::Text, text.value()),
                syn::Lit::ByteStr(text) => {
                    push(Kind::Text, String::from_utf8_lossy(&text.value()).into_owned());
                }
                other => push(Kind::Other, quote::quote!(#other).to_string()),
            },
            TokenTree::Punct(mark) if mark.as_char() == ':' && mark.spacing() == Spacing::Joint => {
                trees.next();
                push(Kind::Other, "::".to_owned());
            }
            TokenTree::Punct(mark) => {
                push(Kind::Other, mark.as_char().to_string());
                if mark.as_char() == '#' {
                    let inner = trees.next_if(|next| is_mark(next, '!'));
                    let doc = trees.peek().and_then(doc_comment);
                    if let (Some(doc), Some(mark)) = (doc, found.last_mut()) {
                        trees.next();
                        mark.kind = Kind::Doc;
                        mark.text = doc;
                    } else if let Some(inner) = inner {
                        flatten(inner.into(), found);
                    }
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::None => ("", ""),
                };
                found.push(Token::new(Kind::Other, open.to_owned(), group.span_open()));
                flatten(group.stream(), found);
                found.push(Token::new(Kind::Other, close.to_owned(), group.span_close()));
            }
        }
    }
}

fn is_mark(tree: &TokenTree, wanted: char) -> bool {
    matches!(tree, TokenTree::Punct(mark) if mark.as_char() == wanted)
}

/// The text of `[doc = ".."]`, which is what a doc comment is read as.
fn doc_comment(tree: &TokenTree) -> Option<String> {
    let TokenTree::Group(group) = tree else {
        return None;
    };
    let mut trees = group.stream().into_iter();
    let (word, mark, text) = (trees.next()?, trees.next()?, trees.next()?);
    let is_doc = matches!(word, TokenTree::Ident(word) if word == "doc") && is_mark(&mark, '=');
    let TokenTree::Literal(text) = text else {
        return None;
    };
    match syn::Lit::new(text) {
        syn::Lit::Str(text) if is_doc => Some(text.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_comments_nor_strings_are_code() {
        let source = "//! Of a file.\n/// As `x.unwrap()`.\nfn f() {\n // x.unwrap()\n \"x.unwrap()\"; r#\"b\"#;\n y\n  .unwrap();\n}";
        let found = tokens(source.parse().unwrap());
        assert_eq!(lines_of(&found, ". unwrap ( )"), [7]);
        let texts = found.iter().filter(|token| token.kind == Kind::Text);
        assert_eq!(
            texts.map(|token| token.text.as_str()).collect::<Vec<_>>(),
            ["x.unwrap()", "b"]
        );
        let docs = found.iter().filter(|token| token.kind == Kind::Doc);
        let docs: Vec<(usize, &str)> = docs.map(|token| (token.line, token.text.as_str())).collect();
        assert_eq!(docs, [(1, " Of a file."), (2, " As `x.unwrap()`.")]);
        assert!(found.iter().all(|token| !token.is("doc") && !token.is("#")));
    }

    #[test]
    fn attributes_that_are_no_comments_are_kept() {
        let found = tokens("#![allow(a)]\n#[doc(hidden)] fn f() { a::b }".parse().unwrap());
        let words: Vec<&str> = found.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(
            words.join(" "),
            "# ! [ allow ( a ) ] # [ doc ( hidden ) ] fn f ( ) { a :: b }"
        );
    }
}
