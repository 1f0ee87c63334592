//! The functions of the C API that make sessions and describe them.

use crate::argument::Handle;
use crate::argument::{List, Out, Room, api, release};
use crate::env::Env;
use crate::memory::{Allocator, PROCESSOR, allocator};
use crate::metadata::Metadata;
use crate::model_file::ModelFile;
use crate::options::{Prepacked, SessionOptions};
use crate::path::Path;
use crate::port::numbered;
use crate::session::Session;
use crate::status::Failure;
use ort_sys::{
    OrtAllocator, OrtApi, OrtEnv, OrtMemoryInfo, OrtModelMetadata, OrtPrepackedWeightsContainer, OrtSession,
    OrtSessionOptions, OrtTypeInfo, os_char,
};
use std::ffi::{c_char, c_void};

fn open(env: &Env, path: Path, options: &SessionOptions) -> Result<*mut OrtSession, Failure> {
    Ok(Session::open(ModelFile::at(path.0), options, options.threads(env.threads()))?.lend())
}

fn open_bytes(
    env: &Env,
    data: &List<u8>,
    length: usize,
    options: &SessionOptions,
) -> Result<*mut OrtSession, Failure> {
    // SAFETY: the caller of the C API has as many bytes.
    let bytes = unsafe { data.of(length, "model_data") }?;
    Ok(Session::from_bytes(bytes, options, options.threads(env.threads()))?.lend())
}

api! {
    fn CreateSession(
        env: *const OrtEnv as &Env,
        model_path: *const os_char as Path,
        options: *const OrtSessionOptions as Option<&SessionOptions>,
        out: *mut *mut OrtSession as Out<*mut OrtSession>,
    ) {
        out.set(open(env, model_path, options.unwrap_or(&SessionOptions::default()))?);
        Ok(())
    }

    fn CreateSessionFromArray(
        env: *const OrtEnv as &Env,
        model_data: *const c_void as List<u8>,
        model_data_length: usize as usize,
        options: *const OrtSessionOptions as Option<&SessionOptions>,
        out: *mut *mut OrtSession as Out<*mut OrtSession>,
    ) {
        let default = SessionOptions::default();
        out.set(open_bytes(env, &model_data, model_data_length, options.unwrap_or(&default))?);
        Ok(())
    }

    fn CreateSessionWithPrepackedWeightsContainer(
        env: *const OrtEnv as &Env,
        model_path: *const os_char as Path,
        options: *const OrtSessionOptions as &SessionOptions,
        prepacked_weights_container: *mut OrtPrepackedWeightsContainer as &Prepacked,
        out: *mut *mut OrtSession as Out<*mut OrtSession>,
    ) {
        let _ = prepacked_weights_container;
        out.set(open(env, model_path, options)?);
        Ok(())
    }

    fn CreateSessionFromArrayWithPrepackedWeightsContainer(
        env: *const OrtEnv as &Env,
        model_data: *const c_void as List<u8>,
        model_data_length: usize as usize,
        options: *const OrtSessionOptions as &SessionOptions,
        prepacked_weights_container: *mut OrtPrepackedWeightsContainer as &Prepacked,
        out: *mut *mut OrtSession as Out<*mut OrtSession>,
    ) {
        let _ = prepacked_weights_container;
        out.set(open_bytes(env, &model_data, model_data_length, options)?);
        Ok(())
    }

    fn SessionGetInputCount(session: *const OrtSession as &Session, out: *mut usize as Out<usize>) {
        out.set(session.inputs().len());
        Ok(())
    }

    fn SessionGetOutputCount(session: *const OrtSession as &Session, out: *mut usize as Out<usize>) {
        out.set(session.outputs().len());
        Ok(())
    }

    fn SessionGetOverridableInitializerCount(
        session: *const OrtSession as &Session,
        out: *mut usize as Out<usize>,
    ) {
        // A plan is compiled for the weights of the model, which no run can replace.
        let _ = session;
        out.set(0);
        Ok(())
    }

    fn SessionGetInputName(
        session: *const OrtSession as &Session,
        index: usize as usize,
        allocator: *mut OrtAllocator as Allocator,
        value: *mut *mut c_char as Out<*mut c_char>,
    ) {
        value.set(allocator.text(&numbered(session.inputs(), "input", index)?.name)?);
        Ok(())
    }

    fn SessionGetOutputName(
        session: *const OrtSession as &Session,
        index: usize as usize,
        allocator: *mut OrtAllocator as Allocator,
        value: *mut *mut c_char as Out<*mut c_char>,
    ) {
        value.set(allocator.text(&numbered(session.outputs(), "output", index)?.name)?);
        Ok(())
    }

    fn SessionGetInputTypeInfo(
        session: *const OrtSession as &Session,
        index: usize as usize,
        type_info: *mut *mut OrtTypeInfo as Out<*mut OrtTypeInfo>,
    ) {
        type_info.set(numbered(session.inputs(), "input", index)?.info.clone().lend());
        Ok(())
    }

    fn SessionGetOutputTypeInfo(
        session: *const OrtSession as &Session,
        index: usize as usize,
        type_info: *mut *mut OrtTypeInfo as Out<*mut OrtTypeInfo>,
    ) {
        type_info.set(numbered(session.outputs(), "output", index)?.info.clone().lend());
        Ok(())
    }

    fn SessionGetModelMetadata(
        session: *const OrtSession as &Session,
        out: *mut *mut OrtModelMetadata as Out<*mut OrtModelMetadata>,
    ) {
        out.set(Metadata::of(session).lend());
        Ok(())
    }

    fn SessionGetMemoryInfoForInputs(
        session: *const OrtSession as &Session,
        inputs_memory_info: *mut *const OrtMemoryInfo as Room<*const OrtMemoryInfo>,
        num_inputs: usize as usize,
    ) {
        // SAFETY: the caller of the C API has room for as many pointers.
        unsafe { inputs_memory_info.fill(num_inputs, &vec![PROCESSOR.pointer(); session.inputs().len()]) }
    }

    fn SessionGetMemoryInfoForOutputs(
        session: *const OrtSession as &Session,
        outputs_memory_info: *mut *const OrtMemoryInfo as Room<*const OrtMemoryInfo>,
        num_outputs: usize as usize,
    ) {
        // SAFETY: the caller of the C API has room for as many pointers.
        unsafe { outputs_memory_info.fill(num_outputs, &vec![PROCESSOR.pointer(); session.outputs().len()]) }
    }

    fn CreateAllocator(
        session: *const OrtSession as &Session,
        mem_info: *const OrtMemoryInfo as &crate::memory::MemoryInfo,
        out: *mut *mut OrtAllocator as Out<*mut OrtAllocator>,
    ) {
        let _ = (session, mem_info);
        out.set(allocator());
        Ok(())
    }
}

release!(ReleaseSession: Session);

/// Adds the functions to a table.
pub fn add(api: OrtApi) -> OrtApi {
    OrtApi {
        CreateSession,
        CreateSessionFromArray,
        CreateSessionWithPrepackedWeightsContainer,
        CreateSessionFromArrayWithPrepackedWeightsContainer,
        SessionGetInputCount,
        SessionGetOutputCount,
        SessionGetOverridableInitializerCount,
        SessionGetInputName,
        SessionGetOutputName,
        SessionGetInputTypeInfo,
        SessionGetOutputTypeInfo,
        SessionGetModelMetadata,
        SessionGetMemoryInfoForInputs,
        SessionGetMemoryInfoForOutputs,
        CreateAllocator,
        ReleaseSession,
        ..api
    }
}
