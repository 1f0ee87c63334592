//! The driver: what is made with it goes with the value that holds it, and what it says comes with what to do.

mod calls;

use super::calls::Status;
use super::device::Architecture;
use super::wanted::{DRIVER, Once, Opened};
pub(super) use calls::Calls;
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;

impl Calls {
    /// What a call came to: success, or what the driver says of it, and what to do.
    ///
    /// # Errors
    /// That it was no success.
    pub fn of(&self, call: &str, status: Status) -> Result<(), String> {
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
            OUT_OF_MEMORY => "bind smaller dimensions, or end what else uses the device's memory",
            NO_BINARY | INVALID_IMAGE => {
                "the machine code is not for this device: `ovolo cache clear` has it made again"
            }
            ILLEGAL_ADDRESS | MISALIGNED_ADDRESS | LAUNCH_FAILED | ILLEGAL_INSTRUCTION => {
                "a kernel is wrong: `compute-sanitizer ovolo run …` names it, `ovolo kernels --source` shows it"
            }
            MISMATCH => "install one version of NVIDIA's driver",
            _ => "`ovolo doctor` says which driver and devices there are",
        };
        let (mut name, mut text) = (ptr::null(), ptr::null());
        // SAFETY: the driver writes a text that lasts, or none, whatever the number.
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

/// The driver with its devices, looked for at the first call; or why there is none, and what to do.
pub(super) fn opened() -> Result<&'static Opened<Calls>, String> {
    static FOUND: Once<Calls> = OnceLock::new();
    DRIVER.once(&FOUND, |path, calls| {
        let (mut version, mut count) = (0, 0);
        let said = |what: &str, status: Status| {
            calls.of(what, status).map_err(|why| format!("{}: {why}", path.display()))
        };
        // SAFETY: the library is open, and writes numbers.
        unsafe {
            said("cuInit", (calls.cuInit)(0))?;
            said("cuDriverGetVersion", (calls.cuDriverGetVersion)(&raw mut version))?;
            said("cuDeviceGetCount", (calls.cuDeviceGetCount)(&raw mut count))?;
        }
        if count == 0 {
            return Err(format!("{}: there is no device", path.display()));
        }
        Ok(format!("CUDA {}.{}, {count} device(s)", version / 1000, version % 1000 / 10))
    })
}

/// What the device's times depend on: the driver's version, and the device; not where they lie.
pub(super) fn identity() -> Result<String, String> {
    static FOUND: OnceLock<Result<String, String>> = OnceLock::new();
    let ask = || {
        let calls = &opened()?.calls;
        let mut version = 0;
        // SAFETY: the driver is open, and writes a number.
        calls.of("cuDriverGetVersion", unsafe { (calls.cuDriverGetVersion)(&raw mut version) })?;
        Ok(format!("CUDA {}.{} on {}", version / 1000, version % 1000 / 10, device()?))
    };
    FOUND.get_or_init(ask).clone()
}

/// The device: what it is called, and its architecture.
fn device() -> Result<String, String> {
    let context = Context::new()?;
    Ok(format!("{} {}", context.name()?, context.architecture()?))
}

/// The first device, with its primary context.
pub(super) struct Context {
    calls: &'static Calls,
    device: sys::CUdevice,
    context: sys::CUcontext,
}

impl Context {
    pub fn new() -> Result<Rc<Self>, String> {
        let calls = &opened()?.calls;
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the driver is open, and writes the device, and then its context.
        unsafe {
            calls.of("cuDeviceGet", (calls.cuDeviceGet)(&raw mut device, 0))?;
            let status = (calls.cuDevicePrimaryCtxRetain)(&raw mut context, device);
            calls.of("cuDevicePrimaryCtxRetain", status)?;
        }
        let context = Rc::new(Self { calls, device, context });
        context.enter()?;
        Ok(context)
    }

    /// Makes it this thread's.
    pub fn enter(&self) -> Result<(), String> {
        // SAFETY: the context is retained as long as this value is there.
        self.of("cuCtxSetCurrent", unsafe { (self.calls.cuCtxSetCurrent)(self.context) })
    }

    /// The compute capability.
    pub fn architecture(&self) -> Result<Architecture, String> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let number = |attribute| {
            let mut number = 0;
            // SAFETY: the device is there, and the driver writes a number.
            let status =
                unsafe { (self.calls.cuDeviceGetAttribute)(&raw mut number, attribute, self.device) };
            self.of("cuDeviceGetAttribute", status).map(|()| u32::try_from(number).unwrap_or(0))
        };
        Ok(Architecture(number(MAJOR)?, number(MINOR)?))
    }

    /// What the device is called.
    pub fn name(&self) -> Result<String, String> {
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: the driver writes a text of at most so many bytes, its end included.
        let name = unsafe {
            let status = (self.calls.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, self.device);
            self.of("cuDeviceGetName", status)?;
            CStr::from_ptr(name.as_ptr())
        };
        Ok(name.to_string_lossy().into_owned())
    }

    /// Waits for everything, and says what went wrong with it.
    pub fn synchronize(&self) -> Result<(), String> {
        // SAFETY: a context is this thread's.
        self.of("cuCtxSynchronize", unsafe { (self.calls.cuCtxSynchronize)() })
    }

    fn of(&self, call: &str, status: Status) -> Result<(), String> {
        self.calls.of(call, status)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once by this value.
        let _ = unsafe { (self.calls.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}

/// Makes a holder of one handle: the context lives as long, and is this thread's when it is given back.
macro_rules! holder {
    ($(#[$doc:meta])* $name:ident($handle:ty), $free:ident) => {
        $(#[$doc])*
        pub(super) struct $name {
            handle: $handle,
            context: Rc<Context>,
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if self.context.enter().is_ok() {
                    // SAFETY: the handle is of this context, and nobody else gives it back.
                    let _ = unsafe { (self.context.calls.$free)(self.handle) };
                }
            }
        }
    };
}

holder!(
    /// Memory of the device.
    Memory(sys::CUdeviceptr),
    cuMemFree_v2
);
holder!(
    /// Memory of the host that the device reads and writes while the host does something else.
    Pinned(*mut c_void),
    cuMemFreeHost
);
holder!(
    /// Machine code on the device.
    Code(sys::CUmodule),
    cuModuleUnload
);
holder!(
    /// A queue.
    Stream(sys::CUstream),
    cuStreamDestroy_v2
);
holder!(
    /// A place in a queue that others wait for.
    Event(sys::CUevent),
    cuEventDestroy_v2
);
holder!(
    /// What queues held, to be replayed as one.
    Replay(sys::CUgraphExec),
    cuGraphExecDestroy
);

impl Memory {
    pub fn new(context: &Rc<Context>, bytes: usize) -> Result<Self, String> {
        let mut handle = 0;
        // SAFETY: the driver writes an address; nothing is read from there before it is written.
        let status = unsafe { (context.calls.cuMemAlloc_v2)(&raw mut handle, bytes.max(1)) };
        context.of(&format!("the device has no {bytes} bytes for the plan: cuMemAlloc"), status)?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    /// The address of a byte.
    pub fn at(&self, offset: usize) -> sys::CUdeviceptr {
        self.handle + offset as u64
    }

    /// Copies bytes there, and waits until they are.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: the caller has laid out the memory so that the bytes have room.
        let status = unsafe {
            (self.context.calls.cuMemcpyHtoD_v2)(self.at(offset), bytes.as_ptr().cast(), bytes.len())
        };
        self.context.of("cuMemcpyHtoD", status)
    }
}

impl Pinned {
    pub fn new(context: &Rc<Context>, bytes: usize) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: the driver writes an address; nothing is read from there before it is written.
        let status = unsafe { (context.calls.cuMemHostAlloc)(&raw mut handle, bytes.max(1), 0) };
        let call = format!("the system has no {bytes} bytes of pinned memory for the plan: cuMemHostAlloc");
        context.of(&call, status)?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    pub fn pointer(&self) -> *mut u8 {
        self.handle.cast()
    }
}

impl Code {
    pub fn new(context: &Rc<Context>, cubin: &[u8]) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: the driver checks the image's header, which says its length.
        let status = unsafe { (context.calls.cuModuleLoadData)(&raw mut handle, cubin.as_ptr().cast()) };
        context.of("cuModuleLoadData", status)?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    pub fn function(&self, name: &str) -> Result<sys::CUfunction, String> {
        let text = CString::new(name).map_err(|error| error.to_string())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, and the driver writes a handle.
        let status = unsafe {
            (self.context.calls.cuModuleGetFunction)(&raw mut function, self.handle, text.as_ptr())
        };
        self.context.of(&format!("cuModuleGetFunction of `{name}`"), status)?;
        Ok(function)
    }
}

impl Stream {
    pub fn new(context: &Rc<Context>) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is this thread's, and the driver writes a handle.
        let status = unsafe { (context.calls.cuStreamCreate)(&raw mut handle, flags) };
        context.of("cuStreamCreate", status)?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    /// The queue as the libraries' bindings take it.
    pub fn raw<T>(&self) -> *mut T {
        self.handle.cast()
    }

    /// Lets what is queued from now on wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), String> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT as u32;
        // SAFETY: both are there.
        let status = unsafe { (self.context.calls.cuStreamWaitEvent)(self.handle, event.handle, flags) };
        self.context.of("cuStreamWaitEvent", status)
    }

    /// Waits until nothing is queued.
    pub fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the stream is there.
        let status = unsafe { (self.context.calls.cuStreamSynchronize)(self.handle) };
        self.context.of("cuStreamSynchronize", status)
    }

    /// Keeps what is queued from now on, on this stream and those that wait for it, instead of running it.
    pub fn begin(&self) -> Result<(), String> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is there.
        let status = unsafe { (self.context.calls.cuStreamBeginCapture_v2)(self.handle, mode) };
        self.context.of("cuStreamBeginCapture", status)
    }

    /// Ends that; what was kept, ready to be replayed.
    pub fn end(&self) -> Result<Replay, String> {
        let context = &self.context;
        let (mut graph, mut handle) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is there; the graph is made into what runs, and given back here.
        let made = unsafe {
            let status = (context.calls.cuStreamEndCapture)(self.handle, &raw mut graph);
            context.of("cuStreamEndCapture", status)?;
            let made = (context.calls.cuGraphInstantiateWithFlags)(&raw mut handle, graph, 0);
            let _ = (context.calls.cuGraphDestroy)(graph);
            made
        };
        context.of("cuGraphInstantiate", made)?;
        Ok(Replay { handle, context: Rc::clone(context) })
    }

    /// Queues what was kept.
    pub fn replay(&self, replay: &Replay) -> Result<(), String> {
        // SAFETY: both are there.
        let status = unsafe { (self.context.calls.cuGraphLaunch)(replay.handle, self.handle) };
        self.context.of("cuGraphLaunch", status)
    }

    /// Queues a copy from the host.
    ///
    /// # Safety
    /// Both places hold so many bytes, and nothing else touches them before the stream is done with it.
    pub unsafe fn upload(&self, to: sys::CUdeviceptr, from: *const u8, bytes: usize) -> Result<(), String> {
        // SAFETY: the caller's promise.
        let status =
            unsafe { (self.context.calls.cuMemcpyHtoDAsync_v2)(to, from.cast(), bytes, self.handle) };
        self.context.of("cuMemcpyHtoDAsync", status)
    }

    /// Queues a copy to the host.
    ///
    /// # Safety
    /// As [`Stream::upload`].
    pub unsafe fn download(&self, to: *mut u8, from: sys::CUdeviceptr, bytes: usize) -> Result<(), String> {
        // SAFETY: the caller's promise.
        let status =
            unsafe { (self.context.calls.cuMemcpyDtoHAsync_v2)(to.cast(), from, bytes, self.handle) };
        self.context.of("cuMemcpyDtoHAsync", status)
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
        let (parameters, extra) = (parameters.as_mut_ptr(), ptr::null_mut());
        let launch = self.context.calls.cuLaunchKernel;
        // SAFETY: the caller's promise.
        let status =
            unsafe { launch(function, x, y, 1, threads, rows, 1, 0, self.handle, parameters, extra) };
        self.context.of("cuLaunchKernel", status)
    }
}

impl Event {
    pub fn new(context: &Rc<Context>) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: a context is this thread's, and the driver writes a handle.
        let status = unsafe { (context.calls.cuEventCreate)(&raw mut handle, flags) };
        context.of("cuEventCreate", status)?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    /// Marks what is queued so far.
    pub fn record(&self, stream: &Stream) -> Result<(), String> {
        // SAFETY: both are there.
        let status = unsafe { (self.context.calls.cuEventRecord)(self.handle, stream.handle) };
        self.context.of("cuEventRecord", status)
    }

    /// Waits until what was marked is done.
    pub fn synchronize(&self) -> Result<(), String> {
        // SAFETY: the event is there.
        let status = unsafe { (self.context.calls.cuEventSynchronize)(self.handle) };
        self.context.of("cuEventSynchronize", status)
    }
}
