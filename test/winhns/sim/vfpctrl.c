/*
 * A SIMULATED vfpctrl.exe. It answers from files in %SIMHNS_DIR%\vfp, read at
 * every run, where NAME is "ports" for /list-vmswitch-port and the port's GUID in
 * lower case for /port GUID:
 *
 *   NAME.txt    the text answer, printed with CRLF whatever the file has
 *   NAME.json   the answer to /format 1, printed as it is
 *   NAME.rc     exit code, 0 if absent (1 if there is no answer)
 *   NAME.delay  milliseconds to wait first; all.delay is for every NAME without
 *   NAME.child  begin a child that keeps the output open and lives this many ms
 *
 * Every run is appended to calls.log beside the simulated HNS's calls if it exists.
 * The layout of the text is reconstructed from public parsers of the real one's.
 */
#include <ctype.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

static void path(char *p, size_t n, const char *name)
{
    static char named[1024];
    const char *d = getenv("SIMHNS_DIR");
    if (!d) { /* as in simhns.c */
        FILE *f = fopen("C:\\simhns.dir", "rb");
        if (f) {
            named[fread(named, 1, sizeof named - 1, f)] = 0;
            fclose(f);
            d = named;
        }
    }
    snprintf(p, n, "%s%s/%s", d && d[0] == '/' ? "Z:" : "", d ? d : ".", name);
}

static FILE *openf(const char *name, const char *ext)
{
    char p[1024], rel[512];
    snprintf(rel, sizeof rel, "vfp/%s%s", name, ext);
    path(p, sizeof p, rel);
    return fopen(p, "rb");
}

static int num(const char *name, const char *ext, int def)
{
    FILE *f = openf(name, ext);
    int v = def;
    if (!f) return def;
    if (fscanf(f, "%d", &v) != 1) v = def;
    fclose(f);
    return v;
}

static void logrun(const char *cmdline)
{
    char p[1024], line[1024];
    DWORD w;
    path(p, sizeof p, "calls.log");
    HANDLE h = CreateFileA(p, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                           NULL, OPEN_EXISTING, 0, NULL);
    if (h == INVALID_HANDLE_VALUE) return;
    int n = snprintf(line, sizeof line, "%lu vfpctrl %s\n", GetCurrentProcessId(), cmdline);
    HANDLE m = CreateMutexA(NULL, FALSE, "simhns-calls.log"); /* as in simhns.c */
    WaitForSingleObject(m, INFINITE);
    WriteFile(h, line, n < (int)sizeof line ? n : (int)sizeof line - 1, &w, NULL);
    ReleaseMutex(m);
    CloseHandle(m);
    CloseHandle(h);
}

static void child(int ms)
{
    char self[MAX_PATH], cmd[MAX_PATH + 64];
    STARTUPINFOA si = {sizeof si};
    PROCESS_INFORMATION pi;
    GetModuleFileNameA(NULL, self, sizeof self);
    snprintf(cmd, sizeof cmd, "\"%s\" /sleep %d", self, ms);
    if (CreateProcessA(NULL, cmd, NULL, NULL, TRUE, 0, NULL, NULL, &si, &pi)) {
        CloseHandle(pi.hThread);
        CloseHandle(pi.hProcess);
    }
}

int main(int argc, char **argv)
{
    char name[256] = "";
    int json = 0;
    _setmode(_fileno(stdout), _O_BINARY);
    logrun(GetCommandLineA());
    for (int i = 1; i < argc; i++) {
        if (!_stricmp(argv[i], "/list-vmswitch-port")) strcpy(name, "ports");
        else if (!_stricmp(argv[i], "/sleep") && i + 1 < argc) { Sleep(atoi(argv[i + 1])); return 0; }
        else if (!_stricmp(argv[i], "/port") && i + 1 < argc) snprintf(name, sizeof name, "%s", argv[i + 1]);
        else if (!_stricmp(argv[i], "/format") && i + 1 < argc && !strcmp(argv[i + 1], "1")) json = 1;
    }
    if (!*name) {
        printf("SIMULATED vfpctrl, not Windows: /list-vmswitch-port | /port GUID /get-port-counter [/format 1]\r\n");
        return 1;
    }
    for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
    int ms = num(name, ".child", 0);
    if (ms) child(ms);
    Sleep(num(name, ".delay", num("all", ".delay", 0)));
    FILE *f = openf(name, json ? ".json" : ".txt");
    if (!f) {
        printf("ERROR: failed to open port %s\r\nError (2): The system cannot find the file specified.\r\n", name);
        return num(name, ".rc", 1);
    }
    int c, last = 0;
    while ((c = fgetc(f)) != EOF) {
        if (!json && c == '\n' && last != '\r') putchar('\r');
        putchar(c);
        last = c;
    }
    return num(name, ".rc", 0);
}
