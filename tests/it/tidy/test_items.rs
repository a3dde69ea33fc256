//! Items that only a build for tests has.

use std::ops::Range;

use proc_macro2::LineColumn;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Meta, Token};

/// Features that are switched on for tests only.
const FEATURES_FOR_TESTS: [&str; 2] = ["testing", "conformance"];

/// Whether an item with these attributes is compiled for tests only.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else {
            return false;
        };
        let condition = list.path.is_ident("cfg").then(|| list.parse_args::<Meta>());
        condition.is_some_and(|condition| condition.is_ok_and(|condition| needs_test(&condition)))
    })
}

/// Whether a condition of `cfg` holds in no build but one for tests.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::NameValue(pair) => {
            let value = &pair.value;
            let value = quote::quote!(#value).to_string();
            let value = value.trim_matches('"');
            pair.path.is_ident("feature") && FEATURES_FOR_TESTS.contains(&value)
        }
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let Ok(parts) = parts else {
                return false;
            };
            if list.path.is_ident("all") {
                parts.iter().any(needs_test)
            } else if list.path.is_ident("any") {
                !parts.is_empty() && parts.iter().all(needs_test)
            } else {
                false
            }
        }
    }
}

/// Places of the items of a file that are for tests only.
pub(super) fn ranges(file: &syn::File) -> Vec<Range<LineColumn>> {
    if is_for_tests(&file.attrs) {
        let whole = |line| LineColumn { line, column: 0 };
        return std::iter::once(whole(0)..whole(usize::MAX)).collect();
    }
    let mut ranges = Ranges(Vec::new());
    ranges.visit_file(file);
    ranges.0
}

struct Ranges(Vec<Range<LineColumn>>);

impl Ranges {
    /// Takes a node out, if it is for tests.
    fn takes(&mut self, attributes: &[Attribute], node: &impl Spanned) -> bool {
        let taken = is_for_tests(attributes);
        if taken {
            let span = node.span();
            self.0.push(span.start()..span.end());
        }
        taken
    }
}

macro_rules! visits {
    ($($visit:ident: $node:ident by $attributes:expr;)*) => {
        impl<'a> Visit<'a> for Ranges {
            $(fn $visit(&mut self, node: &'a syn::$node) {
                let attributes: fn(&syn::$node) -> &[Attribute] = $attributes;
                if !self.takes(attributes(node), node) {
                    visit::$visit(self, node);
                }
            })*
        }
    };
}

visits! {
    visit_item: Item by of_item;
    visit_impl_item: ImplItem by of_impl_item;
    visit_trait_item: TraitItem by of_trait_item;
    visit_stmt: Stmt by of_statement;
    visit_arm: Arm by |node| &node.attrs;
    visit_field: Field by |node| &node.attrs;
    visit_field_value: FieldValue by |node| &node.attrs;
    visit_variant: Variant by |node| &node.attrs;
}

fn of_item(item: &syn::Item) -> &[Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn of_impl_item(item: &syn::ImplItem) -> &[Attribute] {
    use syn::ImplItem;
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        ImplItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}

fn of_trait_item(item: &syn::TraitItem) -> &[Attribute] {
    use syn::TraitItem;
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        TraitItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}

fn of_statement(statement: &syn::Stmt) -> &[Attribute] {
    use syn::{Expr, Stmt};
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Macro(call) => &call.attrs,
        Stmt::Expr(Expr::Block(block), _) => &block.attrs,
        Stmt::Expr(Expr::Call(call), _) => &call.attrs,
        Stmt::Expr(Expr::MethodCall(call), _) => &call.attrs,
        Stmt::Expr(..) | Stmt::Item(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tokens::{split, tokens};

    /// Names of what ships, and of what does not.
    fn read(source: &str) -> (String, String) {
        let stream: proc_macro2::TokenStream = source.parse().unwrap();
        let file = syn::parse2(stream.clone()).unwrap();
        let (tests, shipped) = split(tokens(stream), &ranges(&file));
        let names = |tokens: Vec<_>| {
            let names = tokens
                .iter()
                .filter(|token: &&crate::tidy::tokens::Token| token.is_word() && token.text.len() == 1);
            names.map(|token| token.text.clone()).collect::<String>()
        };
        (names(shipped), names(tests))
    }

    fn split_names(shipped: &str, tests: &str) -> (String, String) {
        (shipped.to_owned(), tests.to_owned())
    }

    #[test]
    fn what_stands_behind_an_item_for_tests_ships() {
        let source =
            "fn a() {}\n#[cfg(test)]\nuse b::{c};\nfn d() {}\n#[cfg(test)]\nmod e { fn f() {} }\nfn g() {}";
        assert_eq!(read(source), split_names("adg", "bcef"));
    }

    #[test]
    fn members_fields_arms_and_statements_are_items_too() {
        let source = "struct S { a: u8, #[cfg(test)] b: u8, c: u8 }
            impl S { fn d() {} #[cfg(test)] fn e() {} fn f() { #[cfg(test)] let g = 1; #[cfg(test)] h(); i(); } }
            fn j() { match k { #[cfg(test)] l => m, n => o } }";
        assert_eq!(read(source), split_names("SacSdfijkno", "beghlm"));
    }

    #[test]
    fn conditions_that_hold_without_tests_ship() {
        let source = "#[cfg(not(test))] fn a() {} #[cfg(any(test, feature = \"failpoints\"))] fn b() {}
            #[cfg(any(test, feature = \"testing\"))] fn c() {} #[cfg(all(test, unix))] fn d() {}
            #[cfg(unix)] #[cfg(test)] fn e() {} #[cfg(all(unix, not(test)))] fn f() {}";
        assert_eq!(read(source), split_names("abf", "cde"));
    }

    #[test]
    fn a_file_may_be_for_tests_as_a_whole() {
        assert_eq!(read("#![cfg(test)]\nfn a() {}"), split_names("", "a"));
    }
}
