//! The public items of a file that give a text as their error, which no caller can match on.

use super::modules::is_for_tests;
use syn::visit::{self, Visit};
use syn::{GenericArgument, ImplItem, PathArguments, TraitItem, Type, Visibility};

/// Public functions, methods, fields, variants and types of a file that name a `Result<_, String>`; types of
/// errors of `FromStr` and `TryFrom` that are `String`.
pub fn texts_for_errors(file: &str) -> Vec<String> {
    let mut items = Items(Vec::new());
    items.visit_file(&syn::parse_file(file).unwrap_or_else(|why| panic!("{why}")));
    items.0
}

/// Whether a signature or a type names a `Result<_, String>`.
#[derive(Default)]
struct Named(bool);

impl<'ast> Visit<'ast> for Named {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if let ("Result", PathArguments::AngleBracketed(list)) =
            (segment.ident.to_string().as_str(), &segment.arguments)
            && let Some(GenericArgument::Type(error)) = list.args.iter().nth(1)
        {
            self.0 |= is_string(error);
        }
        visit::visit_path_segment(self, segment);
    }
}

fn is_string(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "String"),
        Type::Reference(to) => is_string(&to.elem),
        _ => false,
    }
}

fn in_type(ty: &Type) -> bool {
    let mut named = Named::default();
    named.visit_type(ty);
    named.0
}

fn in_signature(signature: &syn::Signature) -> bool {
    let mut named = Named::default();
    named.visit_signature(signature);
    named.0
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

struct Items(Vec<String>);

impl Items {
    fn note(&mut self, found: bool, name: &dyn std::fmt::Display) {
        if found {
            self.0.push(name.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(is_public(&item.vis) && in_signature(&item.sig), &item.sig.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.note(is_public(&item.vis) && in_type(&item.ty), &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        for method in &item.items {
            if let TraitItem::Fn(method) = method {
                self.note(is_public(&item.vis) && in_signature(&method.sig), &method.sig.ident);
            }
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        for field in &item.fields {
            self.note(is_public(&item.vis) && is_public(&field.vis) && in_type(&field.ty), &item.ident);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for field in item.variants.iter().flat_map(|variant| &variant.fields) {
            self.note(is_public(&item.vis) && in_type(&field.ty), &item.ident);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        for inner in &item.items {
            match inner {
                ImplItem::Fn(method) if item.trait_.is_none() => {
                    self.note(is_public(&method.vis) && in_signature(&method.sig), &method.sig.ident);
                }
                ImplItem::Type(ty) if ["Err", "Error"].iter().any(|name| ty.ident == name) => {
                    self.note(is_string(&ty.ty), &ty.ident);
                }
                _ => {}
            }
        }
    }
}
