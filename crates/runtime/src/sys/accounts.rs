//! Calls about users and groups: looking them up in the system's databases (NSS), and becoming one.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// A user as the system knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) name: CString,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: CString,
}

impl Person {
    /// Copies a record.
    ///
    /// # Safety
    /// Its name and home must be null or point to text that ends in NUL.
    unsafe fn of(record: &libc::passwd) -> Person {
        let text = |text: *const libc::c_char| match text.is_null() {
            true => CString::default(),
            // SAFETY: not null, and the caller vouches for the rest.
            false => unsafe { CStr::from_ptr(text) }.to_owned(),
        };
        Person {
            name: text(record.pw_name),
            uid: record.pw_uid,
            gid: record.pw_gid,
            home: text(record.pw_dir),
        }
    }
}

/// Maximum size of a record of the user or group database: a group may have many members.
const RECORD_MAX: usize = 1 << 20;

/// Repeats the call with a larger buffer until the record fits.
fn with_room<T>(
    mut call: impl FnMut(&mut [libc::c_char]) -> (libc::c_int, Option<T>),
) -> io::Result<Option<T>> {
    let mut room = vec![0; 4096];
    loop {
        match call(&mut room) {
            (libc::ERANGE, _) if room.len() < RECORD_MAX => room.resize(room.len() * 4, 0),
            (libc::EINTR, _) => {}
            // Some databases report a missing entry as an error.
            (0 | libc::ENOENT | libc::ESRCH, found) => return Ok(found),
            (errno, _) => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// The user of this name; `None` if there is none.
pub(crate) fn find_user(name: &CStr) -> io::Result<Option<Person>> {
    with_room(|room| {
        let mut record = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all pointers are to live values that outlive the call, and `room` is as long as said.
        let errno = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                record.as_mut_ptr(),
                room.as_mut_ptr(),
                room.len(),
                &raw mut found,
            )
        };
        let person = (errno == 0 && !found.is_null()).then(|| {
            // SAFETY: the call succeeded and `found` is not null, so `record` is filled in; its texts
            // point into `room`, which is borrowed until the copy is made.
            unsafe { Person::of(record.assume_init_ref()) }
        });
        (errno, person)
    })
}

/// Passes the users listed by the database to `take`, one after another, until it returns false. Large directories list
/// nobody and have to be asked by name.
pub(crate) fn each_user(mut take: impl FnMut(Person) -> bool) -> io::Result<()> {
    /// The call keeps its position for the whole process.
    static PLACE: Mutex<()> = Mutex::new(());
    let _held = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: nobody else uses the position, as only this function does and it holds the lock.
    unsafe { libc::setpwent() };
    let outcome = loop {
        // SAFETY: the address of this thread's own errno is always valid.
        unsafe { *libc::__errno_location() = 0 };
        // SAFETY: as for `setpwent`.
        let record = unsafe { libc::getpwent() };
        if record.is_null() {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                // Some databases report their end as an error.
                Some(0 | libc::ENOENT | libc::ESRCH) | None => break Ok(()),
                Some(_) => break Err(error),
            }
        }
        // SAFETY: not null, so it points to a record, which stays as it is until the next call.
        let person = unsafe { Person::of(&*record) };
        if !take(person) {
            break Ok(());
        }
    };
    // SAFETY: as for `setpwent`.
    unsafe { libc::endpwent() };
    outcome
}

/// The ID of the group of this name; `None` if there is none.
pub(crate) fn find_group(name: &CStr) -> io::Result<Option<u32>> {
    with_room(|room| {
        let mut record = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: as for `find_user`.
        let errno = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                record.as_mut_ptr(),
                room.as_mut_ptr(),
                room.len(),
                &raw mut found,
            )
        };
        // SAFETY: the call succeeded and found something, so `record` is filled in.
        let gid = (errno == 0 && !found.is_null()).then(|| unsafe { record.assume_init() }.gr_gid);
        (errno, gid)
    })
}

/// All groups of a user, `gid` among them.
pub(crate) fn groups_of(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `groups` has room for `count` numbers, and both outlive the call.
        let rc = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let wanted = usize::try_from(count).unwrap_or(0);
        if rc >= 0 {
            groups.truncate(wanted);
            return Ok(groups);
        }
        // The kernel accepts 65,536 groups.
        if groups.len() > 1 << 16 {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        groups.resize(wanted.max(groups.len() * 2), 0);
    }
}

/// Makes every thread of this process that user, permanently: real, effective and saved IDs. The C library does it for
/// all threads, which the bare system calls do not.
pub(crate) fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: the pointer and length describe `groups`, which outlives the call.
    done(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: takes numbers only.
    done(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: takes numbers only.
    done(unsafe { libc::setresuid(uid, uid, uid) })
}

/// Makes this the effective user of every thread, which is allowed if it is still the saved one.
pub(crate) fn set_effective_user(uid: u32) -> io::Result<()> {
    // SAFETY: takes a number only.
    done(unsafe { libc::seteuid(uid) })
}

fn done(rc: libc::c_int) -> io::Result<()> {
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
