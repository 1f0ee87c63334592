//! The driver: what is made with it goes with the value that holds it, and what it says comes with what to do.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CString, c_void};
use std::rc::Rc;

/// What the driver said of a call, and what to do.
pub(super) fn said(call: &str, error: DriverError) -> String {
    let text = |found: Result<&std::ffi::CStr, DriverError>| {
        found.map_or_else(|_| format!("{:?}", error.0), |text| text.to_string_lossy().into_owned())
    };
    let remedy = match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            "bind smaller dimensions, or end what else uses the device's memory"
        }
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU | CUresult::CUDA_ERROR_INVALID_IMAGE => {
            "the machine code is not for this device: `ovolo cache clear` has it made again"
        }
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION => {
            "a kernel is wrong: `compute-sanitizer ovolo run …` names it, `ovolo kernels --source` shows it"
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => "install one version of NVIDIA's driver",
        _ => "`ovolo doctor` says which driver and devices there are",
    };
    format!("{call}: {}: {}; {remedy}", text(error.error_name()), text(error.error_string()))
}

/// Gives what the driver says of a call its words.
pub(super) trait Said<T> {
    /// The error with the call's name.
    fn of(self, call: &str) -> Result<T, String>;
}

impl<T> Said<T> for Result<T, DriverError> {
    fn of(self, call: &str) -> Result<T, String> {
        self.map_err(|error| said(call, error))
    }
}

/// The first device, with its primary context.
pub(super) struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

impl Context {
    pub fn new() -> Result<Rc<Self>, String> {
        super::library::driver()?;
        let device = result::device::get(0).of("cuDeviceGet")?;
        // SAFETY: the device is there.
        let context = unsafe { result::primary_ctx::retain(device) }.of("cuDevicePrimaryCtxRetain")?;
        let context = Rc::new(Self { device, context });
        context.enter()?;
        Ok(context)
    }

    /// Makes it this thread's.
    pub fn enter(&self) -> Result<(), String> {
        // SAFETY: the context is retained as long as this value is there.
        unsafe { result::ctx::set_current(self.context) }.of("cuCtxSetCurrent")
    }

    /// The compute capability.
    pub fn architecture(&self) -> Result<super::nvrtc::Architecture, String> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let number = |attribute| {
            // SAFETY: the device is there.
            let number = unsafe { result::device::get_attribute(self.device, attribute) };
            number.of("cuDeviceGetAttribute").map(|number| u32::try_from(number).unwrap_or(0))
        };
        Ok(super::nvrtc::Architecture(number(MAJOR)?, number(MINOR)?))
    }

    /// What the device is called.
    pub fn name(&self) -> Result<String, String> {
        result::device::get_name(self.device).of("cuDeviceGetName")
    }

    /// Waits for everything, and says what went wrong with it.
    pub fn synchronize(&self) -> Result<(), String> {
        result::ctx::synchronize().of("cuCtxSynchronize")
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once by this value.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Makes a holder of one handle: the context lives as long, and is this thread's when it is given back.
macro_rules! holder {
    ($(#[$doc:meta])* $name:ident($handle:ty), $free:path) => {
        $(#[$doc])*
        pub(super) struct $name {
            handle: $handle,
            context: Rc<Context>,
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if self.context.enter().is_ok() {
                    // SAFETY: the handle is of this context, and nobody else gives it back.
                    let _ = unsafe { $free(self.handle) };
                }
            }
        }
    };
}

holder!(
    /// Memory of the device.
    Memory(sys::CUdeviceptr),
    result::free_sync
);
holder!(
    /// Memory of the host that the device reads and writes while the host does something else.
    Pinned(*mut c_void),
    result::free_host
);
holder!(
    /// Machine code on the device.
    Code(sys::CUmodule),
    result::module::unload
);
holder!(
    /// A queue.
    Stream(sys::CUstream),
    result::stream::destroy
);
holder!(
    /// A place in a queue that others wait for.
    Event(sys::CUevent),
    result::event::destroy
);
holder!(
    /// What queues held, to be replayed as one.
    Replay(sys::CUgraphExec),
    result::graph::exec_destroy
);

impl Memory {
    pub fn new(context: &Rc<Context>, bytes: usize) -> Result<Self, String> {
        // SAFETY: nothing is read from it before it is written.
        let handle = unsafe { result::malloc_sync(bytes.max(1)) }
            .of(&format!("the device has no {bytes} bytes for the plan: cuMemAlloc"))?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    /// The address of a byte.
    pub fn at(&self, offset: usize) -> sys::CUdeviceptr {
        self.handle + offset as u64
    }

    /// Copies bytes there, and waits until they are.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: the caller has laid out the memory so that the bytes have room.
        unsafe { result::memcpy_htod_sync(self.at(offset), bytes) }.of("cuMemcpyHtoD")
    }
}

impl Pinned {
    pub fn new(context: &Rc<Context>, bytes: usize) -> Result<Self, String> {
        // SAFETY: nothing is read from it before it is written.
        let handle = unsafe { result::malloc_host(bytes.max(1), 0) }
            .of(&format!("the system has no {bytes} bytes of pinned memory for the plan: cuMemHostAlloc"))?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    pub fn pointer(&self) -> *mut u8 {
        self.handle.cast()
    }
}

impl Code {
    pub fn new(context: &Rc<Context>, cubin: &[u8]) -> Result<Self, String> {
        // SAFETY: the driver checks the image's header, which says its length.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }.of("cuModuleLoadData")?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    pub fn function(&self, name: &str) -> Result<sys::CUfunction, String> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the module is loaded.
        unsafe { result::module::get_function(self.handle, text) }
            .of(&format!("cuModuleGetFunction of `{name}`"))
    }
}

impl Stream {
    pub fn new(context: &Rc<Context>) -> Result<Self, String> {
        let handle = result::stream::create(result::stream::StreamKind::NonBlocking).of("cuStreamCreate")?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    /// The queue as the libraries' bindings take it.
    pub fn raw<T>(&self) -> *mut T {
        self.handle.cast()
    }

    /// Lets what is queued from now on wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), String> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are there.
        unsafe { result::stream::wait_event(self.handle, event.handle, flags) }.of("cuStreamWaitEvent")
    }

    /// Waits until nothing is queued.
    pub fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the stream is there.
        unsafe { result::stream::synchronize(self.handle) }.of("cuStreamSynchronize")
    }

    /// Keeps what is queued from now on, on this stream and those that wait for it, instead of running it.
    pub fn begin(&self) -> Result<(), String> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is there.
        unsafe { result::stream::begin_capture(self.handle, mode) }.of("cuStreamBeginCapture")
    }

    /// Ends that; what was kept, ready to be replayed.
    pub fn end(&self) -> Result<Replay, String> {
        // SAFETY: the stream is there; the graph is made into what runs, and given back here.
        unsafe {
            let graph = result::stream::end_capture(self.handle).of("cuStreamEndCapture")?;
            let made = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            let handle = made.of("cuGraphInstantiate")?;
            Ok(Replay { handle, context: Rc::clone(&self.context) })
        }
    }

    /// Queues what was kept.
    pub fn replay(&self, replay: &Replay) -> Result<(), String> {
        // SAFETY: both are there.
        unsafe { result::graph::launch(replay.handle, self.handle) }.of("cuGraphLaunch")
    }

    /// Queues a copy from the host.
    ///
    /// # Safety
    /// Both places hold so many bytes, and nothing else touches them before the stream is done with it.
    pub unsafe fn upload(&self, to: sys::CUdeviceptr, from: *const u8, bytes: usize) -> Result<(), String> {
        // SAFETY: the caller's promise.
        unsafe { result::memcpy_htod_async(to, std::slice::from_raw_parts(from, bytes), self.handle) }
            .of("cuMemcpyHtoDAsync")
    }

    /// Queues a copy to the host.
    ///
    /// # Safety
    /// As [`Stream::upload`].
    pub unsafe fn download(&self, to: *mut u8, from: sys::CUdeviceptr, bytes: usize) -> Result<(), String> {
        // SAFETY: the caller's promise.
        unsafe { result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(to, bytes), from, self.handle) }
            .of("cuMemcpyDtoHAsync")
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// The parameters point at what the kernel takes.
    pub unsafe fn launch(
        &self,
        function: sys::CUfunction,
        launch: super::Launch,
        parameters: &mut [*mut c_void],
    ) -> Result<(), String> {
        let ([x, y], [threads, rows]) = (launch.grid, launch.block);
        // SAFETY: the caller's promise.
        unsafe { result::launch_kernel(function, (x, y, 1), (threads, rows, 1), 0, self.handle, parameters) }
            .of("cuLaunchKernel")
    }
}

impl Event {
    pub fn new(context: &Rc<Context>) -> Result<Self, String> {
        let handle =
            result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).of("cuEventCreate")?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    /// Marks what is queued so far.
    pub fn record(&self, stream: &Stream) -> Result<(), String> {
        // SAFETY: both are there.
        unsafe { result::event::record(self.handle, stream.handle) }.of("cuEventRecord")
    }

    /// Waits until what was marked is done.
    pub fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the event is there.
        unsafe { result::event::synchronize(self.handle) }.of("cuEventSynchronize")
    }
}
