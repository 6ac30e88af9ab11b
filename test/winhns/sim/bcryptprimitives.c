/*
 * Not part of the simulation: what Wine 8 lacks for a Go program.
 *
 * Stub bcryptprimitives.dll for wine 8 (system32). Every Go >= 1.21 process loads it in
 * runtime.osinit for ProcessPrng. Being inside every Go process before main, it also
 * teaches wine 8's ntdll!NtSetInformationFile the FileDispositionInformationEx class
 * (64) that Go >= 1.25's os.RemoveAll / t.TempDir needs (wine 8: STATUS_NOT_IMPLEMENTED,
 * "unlinkat ...: Invalid function."), by mapping it to FileDispositionInformation (13).
 */
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG); /* RtlGenRandom, advapi32 */
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buf, SIZE_T n)
{
    while (n) {
        ULONG c = n > 0x10000 ? 0x10000 : (ULONG)n;
        if (!SystemFunction036(buf, c)) return FALSE;
        buf += c; n -= c;
    }
    return TRUE;
}

typedef LONG (NTAPI *setinfo_t)(HANDLE, PVOID, PVOID, ULONG, ULONG);
static setinfo_t orig;
static LONG NTAPI hook(HANDLE h, PVOID io, PVOID buf, ULONG len, ULONG cls)
{
    if (cls == 64 && buf && len >= sizeof(ULONG)) {
        BOOLEAN del = (*(ULONG *)buf & 1) != 0;
        return orig(h, io, &del, sizeof del, 13);
    }
    return orig(h, io, buf, len, cls);
}
BOOL WINAPI DllMain(HINSTANCE inst, DWORD reason, LPVOID p)
{
    if (reason == DLL_PROCESS_ATTACH) {
        unsigned char *f = (unsigned char *)GetProcAddress(GetModuleHandleA("ntdll.dll"), "NtSetInformationFile");
        DWORD old;
        /* wine x86-64 syscall thunk: mov r10,rcx; mov eax,nr; ... (position independent, < 32 bytes) */
        if (f && f[0] == 0x4c && f[1] == 0x8b && f[2] == 0xd1 && f[3] == 0xb8) {
            unsigned char *t = VirtualAlloc(NULL, 64, MEM_COMMIT | MEM_RESERVE, PAGE_EXECUTE_READWRITE);
            if (t && VirtualProtect(f, 12, PAGE_EXECUTE_READWRITE, &old)) {
                for (int i = 0; i < 32; i++) t[i] = f[i];
                orig = (setinfo_t)t;
                ULONG_PTR a = (ULONG_PTR)hook;
                f[0] = 0x48; f[1] = 0xb8; /* mov rax, imm64 */
                for (int i = 0; i < 8; i++) f[2 + i] = (unsigned char)(a >> (8 * i));
                f[10] = 0xff; f[11] = 0xe0; /* jmp rax */
                VirtualProtect(f, 12, old, &old);
            }
        }
    }
    return TRUE;
}
