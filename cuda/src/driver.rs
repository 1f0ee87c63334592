//! The CUDA driver. Each value owns the resources that were created with it, and each error says what the user can
//! do.

mod calls;

use super::calls::Status;
use super::device::{Architecture, Properties};
use super::shared::Shared;
use super::wanted::{DRIVER, Once, Opened};
pub(super) use calls::Calls;
use cudarc::driver::sys::{self, CUresult};
use ovolo::op::OpError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// Why the driver did not create something on the device.
pub(super) struct Refusal {
    /// Whether the device, or the system for pinned memory, has not enough memory.
    pub memory: bool,
    /// The driver's message, and what the user can do.
    pub why: String,
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        refusal.why
    }
}

impl From<Refusal> for OpError {
    fn from(refusal: Refusal) -> Self {
        if refusal.memory { Self::memory(refusal.why) } else { Self::backend(refusal.why) }
    }
}

impl Calls {
    /// Returns the newest version of CUDA that the driver supports: the major and the minor number.
    fn version(&self) -> Result<(usize, usize), String> {
        let mut version = 0;
        // SAFETY: the driver is open, and writes a number.
        self.check("cuDriverGetVersion", unsafe { (self.cuDriverGetVersion)(&raw mut version) })?;
        let version = usize::try_from(version).unwrap_or(0);
        Ok((version / 1000, version % 1000 / 10))
    }

    /// As [`Calls::check`], for a call that takes memory.
    fn take(&self, call: &str, status: Status) -> Result<(), Refusal> {
        let memory = status.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
        self.check(call, status).map_err(|why| Refusal { memory, why })
    }

    /// Returns an error unless the status is success. The error has the driver's message, and says what the user can
    /// do.
    ///
    /// # Errors
    /// If the status is not success.
    pub(crate) fn check(&self, call: &str, status: Status) -> Result<(), String> {
        if status == Status::SUCCESS {
            return Ok(());
        }
        const OUT_OF_MEMORY: u32 = CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
        const NO_BINARY: u32 = CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as u32;
        const INVALID_IMAGE: u32 = CUresult::CUDA_ERROR_INVALID_IMAGE as u32;
        const ILLEGAL_ADDRESS: u32 = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS as u32;
        const MISALIGNED_ADDRESS: u32 = CUresult::CUDA_ERROR_MISALIGNED_ADDRESS as u32;
        const LAUNCH_FAILED: u32 = CUresult::CUDA_ERROR_LAUNCH_FAILED as u32;
        const ILLEGAL_INSTRUCTION: u32 = CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION as u32;
        const MISMATCH: u32 = CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH as u32;
        let remedy = match status.0 {
            OUT_OF_MEMORY => "bind smaller dimensions, or end other programs that use the device's memory",
            NO_BINARY | INVALID_IMAGE => {
                "the machine code is not for this device: run `ovolo cache clear`, so that it is compiled again"
            }
            ILLEGAL_ADDRESS | MISALIGNED_ADDRESS | LAUNCH_FAILED | ILLEGAL_INSTRUCTION => {
                "a kernel is faulty: run `compute-sanitizer ovolo run …` to find it, and `ovolo kernels --source` to \
                 see it"
            }
            MISMATCH => "install all parts of NVIDIA's driver in the same version",
            _ => "run `ovolo doctor`, which lists the driver and the devices",
        };
        let (mut name, mut text) = (ptr::null(), ptr::null());
        // SAFETY: for every number the driver writes null or a string with static lifetime.
        let (name, text) = unsafe {
            let _ = (self.cuGetErrorName)(status, &raw mut name);
            let _ = (self.cuGetErrorString)(status, &raw mut text);
            let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy());
            (status.named(name), text)
        };
        let text = text.map_or_else(String::new, |text| format!(": {text}"));
        Err(format!("{call}: {name}{text}; {remedy}"))
    }
}

/// Returns the driver, which has at least one device. The first call searches for it. The error says why there is
/// none, and what the user can do.
pub(super) fn opened() -> Result<&'static Opened<Calls>, String> {
    static FOUND: Once<Calls> = OnceLock::new();
    DRIVER.once(&FOUND, |calls| {
        let mut count = 0;
        // SAFETY: the library is open, and writes numbers.
        unsafe {
            calls.check("cuInit", (calls.cuInit)(0))?;
            calls.check("cuDeviceGetCount", (calls.cuDeviceGetCount)(&raw mut count))?;
        }
        let (major, minor) = calls.version()?;
        if count == 0 {
            return Err("there is no device".to_owned());
        }
        Ok(format!("CUDA {major}.{minor}, {count} device(s)"))
    })
}

/// Returns an error if a library is for a newer major version of CUDA than the driver supports: the driver would
/// refuse the library's machine code. Without a driver, any library is good, because nothing runs.
pub(super) fn supports(library: &str, major: usize) -> Result<(), String> {
    let Ok(found) = opened() else { return Ok(()) };
    let (newest, minor) = found.calls.version()?;
    if major <= newest {
        return Ok(());
    }
    Err(format!(
        "{library} is for CUDA {major}, but the driver supports CUDA {newest}.{minor} at most: install one for CUDA \
         {newest}, or a newer driver"
    ))
}

/// Returns what measured times depend on: the driver's version and the device, but not their paths.
pub(super) fn identity() -> Result<String, String> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    let ask = || {
        let (major, minor) = opened()?.calls.version()?;
        Ok(format!("CUDA {major}.{minor} on {}", device()?))
    };
    FOUND.get_or_init(ask).clone()
}

/// Returns the name of the device and its architecture.
pub(super) fn device() -> Result<String, String> {
    let context = Context::shared()?;
    Ok(format!("{} {}", context.name()?, context.architecture()?))
}

/// Returns the properties of the first device. This needs no context, which takes a device's memory and longer to make.
pub(super) fn properties() -> Result<Properties, String> {
    static FOUND: OnceLock<Result<Properties, String>> = OnceLock::new();
    FOUND.get_or_init(|| Device::first()?.properties()).clone()
}

/// A device by the driver's number.
struct Device {
    calls: &'static Calls,
    number: sys::CUdevice,
}

impl Device {
    fn first() -> Result<Self, String> {
        let calls = &opened()?.calls;
        let mut number = 0;
        // SAFETY: the driver is open, and writes the device.
        calls.check("cuDeviceGet", unsafe { (calls.cuDeviceGet)(&raw mut number, 0) })?;
        Ok(Self { calls, number })
    }

    fn properties(&self) -> Result<Properties, String> {
        use sys::CUdevice_attribute as Attribute;
        Ok(Properties {
            name: self.name()?,
            architecture: self.architecture()?,
            multiprocessors: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            clock: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            memory_clock: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            memory_bus: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        })
    }

    /// Returns the compute capability.
    fn architecture(&self) -> Result<Architecture, String> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        Ok(Architecture(self.attribute(MAJOR)?, self.attribute(MINOR)?))
    }

    /// Returns a property of the device.
    fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<u32, String> {
        let mut value = 0;
        // SAFETY: the device is valid, and the driver writes a number.
        let status = unsafe { (self.calls.cuDeviceGetAttribute)(&raw mut value, attribute, self.number) };
        self.calls.check("cuDeviceGetAttribute", status).map(|()| u32::try_from(value).unwrap_or(0))
    }

    /// Returns the name of the device.
    fn name(&self) -> Result<String, String> {
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: the driver writes a string of at most this number of bytes, including its end.
        let name = unsafe {
            let status = (self.calls.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, self.number);
            self.calls.check("cuDeviceGetName", status)?;
            CStr::from_ptr(name.as_ptr())
        };
        Ok(name.to_string_lossy().into_owned())
    }
}

/// The first device, with its primary context. The process retains the context once and keeps it until it ends,
/// because the last release would destroy it with everything that libraries have loaded into it.
pub(super) struct Context {
    calls: &'static Calls,
    device: Device,
    context: sys::CUcontext,
}

// SAFETY: the driver's handles of devices and contexts may be used by any thread.
unsafe impl Send for Context {}
// SAFETY: as above; no function changes the value.
unsafe impl Sync for Context {}

impl Context {
    /// Returns the context, which is then current on this thread.
    pub(crate) fn shared() -> Result<&'static Self, String> {
        static SHARED: Shared<Context> = Shared::new();
        let context = SHARED.get(Self::retained)?;
        context.enter()?;
        Ok(context)
    }

    fn retained() -> Result<Self, String> {
        let device = Device::first()?;
        let (calls, mut context) = (device.calls, ptr::null_mut());
        // SAFETY: the device is valid, and the driver writes its context.
        let status = unsafe { (calls.cuDevicePrimaryCtxRetain)(&raw mut context, device.number) };
        calls.check("cuDevicePrimaryCtxRetain", status)?;
        Ok(Self { calls, device, context })
    }

    /// Makes the context current on this thread.
    pub(crate) fn enter(&self) -> Result<(), String> {
        // SAFETY: the context is retained until the process ends.
        self.check("cuCtxSetCurrent", unsafe { (self.calls.cuCtxSetCurrent)(self.context) })
    }

    /// Returns the compute capability.
    pub(crate) fn architecture(&self) -> Result<Architecture, String> {
        self.device.architecture()
    }

    /// Returns the bytes of the cache that all multiprocessors share.
    pub(crate) fn cache(&self) -> Result<usize, String> {
        let bytes = self.device.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Returns the name of the device.
    pub(crate) fn name(&self) -> Result<String, String> {
        self.device.name()
    }

    fn check(&self, call: &str, status: Status) -> Result<(), String> {
        self.calls.check(call, status)
    }
}

/// Defines an owner of one handle. Any thread may drop the owner.
macro_rules! owner {
    ($(#[$doc:meta])* $name:ident($handle:ty), $free:ident) => {
        $(#[$doc])*
        pub(super) struct $name {
            handle: $handle,
            context: &'static Context,
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if self.context.enter().is_ok() {
                    // SAFETY: the handle belongs to this context, and it is released once.
                    let _ = unsafe { (self.context.calls.$free)(self.handle) };
                }
            }
        }
    };
}

owner!(
    /// Memory of the device.
    Memory(sys::CUdeviceptr),
    cuMemFree_v2
);
owner!(
    /// Memory of the host that the device can access asynchronously.
    Pinned(*mut c_void),
    cuMemFreeHost
);
owner!(
    /// Machine code on the device.
    Code(sys::CUmodule),
    cuModuleUnload
);
owner!(
    /// A queue of work.
    Stream(sys::CUstream),
    cuStreamDestroy_v2
);
owner!(
    /// A position in a queue that other queues can wait for.
    Event(sys::CUevent),
    cuEventDestroy_v2
);
owner!(
    /// The captured content of queues, which can be queued again as a whole.
    Replay(sys::CUgraphExec),
    cuGraphExecDestroy
);

impl Memory {
    pub(crate) fn new(context: &'static Context, bytes: usize) -> Result<Self, Refusal> {
        let mut handle = 0;
        // SAFETY: the driver writes an address; the memory is written before it is read.
        let status = unsafe { (context.calls.cuMemAlloc_v2)(&raw mut handle, bytes.max(1)) };
        let call = format!("the device cannot allocate {bytes} bytes for the plan: cuMemAlloc");
        context.calls.take(&call, status)?;
        Ok(Self { handle, context })
    }

    /// Returns the address of a byte.
    pub fn at(&self, offset: usize) -> sys::CUdeviceptr {
        self.handle + offset as u64
    }

    /// Copies bytes to offsets on the device, and waits until they are there. The caller has reserved enough memory.
    ///
    /// A copy from memory that is not pinned may return while the bytes are still on their way, and a stream that does
    /// not wait for the default one, as ours do not, could read what was there before.
    pub(crate) fn write<'a>(&self, parts: impl IntoIterator<Item = (usize, &'a [u8])>) -> Result<(), String> {
        let calls = self.context.calls;
        for (offset, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            // SAFETY: the caller has reserved enough memory for the bytes.
            let status =
                unsafe { (calls.cuMemcpyHtoD_v2)(self.at(offset), bytes.as_ptr().cast(), bytes.len()) };
            self.context.check("cuMemcpyHtoD", status)?;
        }
        // SAFETY: null is the default stream of the context, which is current on this thread.
        self.context.check("cuStreamSynchronize", unsafe { (calls.cuStreamSynchronize)(ptr::null_mut()) })
    }
}

impl Pinned {
    pub(crate) fn new(context: &'static Context, bytes: usize) -> Result<Self, Refusal> {
        let mut handle = ptr::null_mut();
        // SAFETY: the driver writes an address; the memory is written before it is read.
        let status = unsafe { (context.calls.cuMemHostAlloc)(&raw mut handle, bytes.max(1), 0) };
        let call =
            format!("the system cannot allocate {bytes} bytes of pinned memory for the plan: cuMemHostAlloc");
        context.calls.take(&call, status)?;
        Ok(Self { handle, context })
    }

    pub fn pointer(&self) -> *mut u8 {
        self.handle.cast()
    }
}

impl Code {
    pub(crate) fn new(context: &'static Context, cubin: &[u8]) -> Result<Self, Refusal> {
        let mut handle = ptr::null_mut();
        // SAFETY: the driver checks the image's header, which contains its length.
        let status = unsafe { (context.calls.cuModuleLoadData)(&raw mut handle, cubin.as_ptr().cast()) };
        context.calls.take("cuModuleLoadData", status)?;
        Ok(Self { handle, context })
    }

    pub(crate) fn function(&self, name: &str) -> Result<sys::CUfunction, String> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, and the driver writes a handle.
        let status = unsafe {
            (self.context.calls.cuModuleGetFunction)(&raw mut function, self.handle, text.as_ptr())
        };
        self.context.check(&format!("cuModuleGetFunction of `{name}`"), status)?;
        Ok(function)
    }
}

impl Stream {
    pub(crate) fn new(context: &'static Context) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current on this thread, and the driver writes a handle.
        let status = unsafe { (context.calls.cuStreamCreate)(&raw mut handle, flags) };
        context.check("cuStreamCreate", status)?;
        Ok(Self { handle, context })
    }

    /// Returns the handle in the type of a library's binding.
    pub fn raw<T>(&self) -> *mut T {
        self.handle.cast()
    }

    /// Makes all work that is queued from now on wait for an event.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), String> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT as u32;
        // SAFETY: both handles are valid.
        let status = unsafe { (self.context.calls.cuStreamWaitEvent)(self.handle, event.handle, flags) };
        self.context.check("cuStreamWaitEvent", status)
    }

    /// Waits until the queue is empty.
    pub(crate) fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the stream is valid.
        let status = unsafe { (self.context.calls.cuStreamSynchronize)(self.handle) };
        self.context.check("cuStreamSynchronize", status)
    }

    /// Starts a capture: work that is queued on this stream, or on streams that wait for it, is recorded and does not
    /// run.
    pub(crate) fn begin(&self) -> Result<(), String> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is valid.
        let status = unsafe { (self.context.calls.cuStreamBeginCapture_v2)(self.handle, mode) };
        self.context.check("cuStreamBeginCapture", status)
    }

    /// Ends the capture. Returns the recorded work, ready to be queued.
    pub(crate) fn end(&self) -> Result<Replay, String> {
        let context = self.context;
        let (mut graph, mut handle) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is valid; the graph is instantiated and then released here.
        let made = unsafe {
            let status = (context.calls.cuStreamEndCapture)(self.handle, &raw mut graph);
            context.check("cuStreamEndCapture", status)?;
            let made = (context.calls.cuGraphInstantiateWithFlags)(&raw mut handle, graph, 0);
            let _ = (context.calls.cuGraphDestroy)(graph);
            made
        };
        context.check("cuGraphInstantiate", made)?;
        Ok(Replay { handle, context })
    }

    /// Queues recorded work.
    pub(crate) fn replay(&self, replay: &Replay) -> Result<(), String> {
        // SAFETY: both handles are valid.
        let status = unsafe { (self.context.calls.cuGraphLaunch)(replay.handle, self.handle) };
        self.context.check("cuGraphLaunch", status)
    }

    /// Queues a copy from the host to the device.
    ///
    /// # Safety
    /// Both buffers must have this number of bytes, and nothing else may use them until the stream has run the copy.
    pub(crate) unsafe fn upload(
        &self,
        to: sys::CUdeviceptr,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), String> {
        // SAFETY: as the caller promises.
        let status =
            unsafe { (self.context.calls.cuMemcpyHtoDAsync_v2)(to, from.cast(), bytes, self.handle) };
        self.context.check("cuMemcpyHtoDAsync", status)
    }

    /// Queues a copy within the device.
    ///
    /// # Safety
    /// As for [`Stream::upload`].
    pub(crate) unsafe fn copy(
        &self,
        to: sys::CUdeviceptr,
        from: sys::CUdeviceptr,
        bytes: usize,
    ) -> Result<(), String> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.context.calls.cuMemcpyDtoDAsync_v2)(to, from, bytes, self.handle) };
        self.context.check("cuMemcpyDtoDAsync", status)
    }

    /// Queues zeros for the whole of some memory.
    ///
    /// # Safety
    /// The memory must have this number of bytes, and nothing else may use it until the stream has run the call.
    pub(crate) unsafe fn zero(&self, memory: &Memory, bytes: usize) -> Result<(), String> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.context.calls.cuMemsetD8Async)(memory.at(0), 0, bytes, self.handle) };
        self.context.check("cuMemsetD8Async", status)
    }

    /// Queues a copy from the device to the host.
    ///
    /// # Safety
    /// As for [`Stream::upload`].
    pub(crate) unsafe fn download(
        &self,
        to: *mut u8,
        from: sys::CUdeviceptr,
        bytes: usize,
    ) -> Result<(), String> {
        // SAFETY: as the caller promises.
        let status =
            unsafe { (self.context.calls.cuMemcpyDtoHAsync_v2)(to.cast(), from, bytes, self.handle) };
        self.context.check("cuMemcpyDtoHAsync", status)
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// The parameters must point to the arguments that the kernel expects.
    pub(crate) unsafe fn launch(
        &self,
        function: sys::CUfunction,
        launch: super::Launch,
        parameters: &mut [*mut c_void],
    ) -> Result<(), String> {
        let ([x, y], [threads, rows]) = (launch.grid, launch.block);
        let (parameters, extra) = (parameters.as_mut_ptr(), ptr::null_mut());
        let launch = self.context.calls.cuLaunchKernel;
        // SAFETY: as the caller promises.
        let status =
            unsafe { launch(function, x, y, 1, threads, rows, 1, 0, self.handle, parameters, extra) };
        self.context.check("cuLaunchKernel", status)
    }
}

impl Event {
    pub(crate) fn new(context: &'static Context) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: a context is current on this thread, and the driver writes a handle.
        let status = unsafe { (context.calls.cuEventCreate)(&raw mut handle, flags) };
        context.check("cuEventCreate", status)?;
        Ok(Self { handle, context })
    }

    /// Marks the end of the work that is queued so far.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), String> {
        // SAFETY: both handles are valid.
        let status = unsafe { (self.context.calls.cuEventRecord)(self.handle, stream.handle) };
        self.context.check("cuEventRecord", status)
    }

    /// Waits until the marked work has finished.
    pub(crate) fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the event is valid.
        let status = unsafe { (self.context.calls.cuEventSynchronize)(self.handle) };
        self.context.check("cuEventSynchronize", status)
    }
}
