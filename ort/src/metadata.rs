//! What a model says of itself.

use crate::argument::{Handle, Out, api, release};
use crate::memory::Allocator;
use crate::session::Session;
use ort_sys::{OrtAllocator, OrtApi, OrtModelMetadata};
use ovolo::onnx::Interface;
use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

/// What a model says of itself.
pub struct Metadata(Arc<Interface>);

impl Handle for Metadata {
    type Sys = OrtModelMetadata;
}

impl Metadata {
    /// Reads it off a session.
    pub fn of(session: &Session) -> Self {
        Self(Arc::clone(session.interface()))
    }
}

/// Functions that return one of the texts.
macro_rules! texts {
    ($($name:ident: $field:ident),* $(,)?) => {
        api! {$(
            fn $name(
                model_metadata: *const OrtModelMetadata as &Metadata,
                allocator: *mut OrtAllocator as Allocator,
                value: *mut *mut c_char as Out<*mut c_char>,
            ) {
                value.set(allocator.text(&model_metadata.0.about.$field)?);
                Ok(())
            }
        )*}
    };
}

texts!(
    ModelMetadataGetProducerName: producer,
    ModelMetadataGetGraphName: graph,
    ModelMetadataGetDomain: domain,
    ModelMetadataGetDescription: description,
);

api! {
    fn ModelMetadataGetVersion(
        model_metadata: *const OrtModelMetadata as &Metadata,
        value: *mut i64 as Out<i64>,
    ) {
        value.set(model_metadata.0.about.version);
        Ok(())
    }

    fn ModelMetadataLookupCustomMetadataMap(
        model_metadata: *const OrtModelMetadata as &Metadata,
        allocator: *mut OrtAllocator as Allocator,
        key: *const c_char as &str,
        value: *mut *mut c_char as Out<*mut c_char>,
    ) {
        value.set(match model_metadata.0.about.metadata.get(key) {
            Some(text) => allocator.text(text)?,
            None => ptr::null_mut(),
        });
        Ok(())
    }

    fn ModelMetadataGetCustomMetadataMapKeys(
        model_metadata: *const OrtModelMetadata as &Metadata,
        allocator: *mut OrtAllocator as Allocator,
        keys: *mut *mut *mut c_char as Out<*mut *mut c_char>,
        num_keys: *mut i64 as Out<i64>,
    ) {
        let names = &model_metadata.0.about.metadata;
        let list = if names.is_empty() {
            ptr::null_mut()
        } else {
            let texts = names.keys().map(|name| allocator.text(name));
            allocator.list(&texts.collect::<Result<Vec<*mut c_char>, _>>()?)?
        };
        keys.set(list);
        num_keys.set(i64::try_from(names.len()).unwrap_or(i64::MAX));
        Ok(())
    }
}

release!(ReleaseModelMetadata: Metadata);

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        ModelMetadataGetVersion,
        ModelMetadataLookupCustomMetadataMap,
        ModelMetadataGetCustomMetadataMapKeys,
        ReleaseModelMetadata,
        ModelMetadataGetProducerName,
        ModelMetadataGetGraphName,
        ModelMetadataGetDomain,
        ModelMetadataGetDescription,
        ..api
    }
}
