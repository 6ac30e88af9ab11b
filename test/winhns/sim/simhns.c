/*
 * A SIMULATED Host Networking Service: computenetwork.dll (-DSIM_HCN) and
 * vmcompute.dll (-DSIM_HNS) with the calls that hcsshim makes, for Windows
 * binaries under Wine. It proves what the callers do with an answer, not that
 * Windows answers so. SimulatedHNS, an export of both, tells it from Windows.
 *
 * All answers come from files below %SIMHNS_DIR%, or without it the directory that
 * the file C:\simhns.dir names, read at every call. Write a file beside and rename
 * it over the old one to change an answer atomically.
 *
 *  HCN, T = networks|endpoints|namespaces|loadbalancers|routes
 *    hcn/T.json              HcnEnumerate's answer, verbatim. If absent it is
 *                            built from hcn/T/<guid>.json and the query's Filter
 *                            (equality of plain members).
 *    hcn/T/<guid>.json       HcnOpen* succeeds if it exists, HcnQuery* answers it
 *  HNS V1 (HNSCall)
 *    hns/<method>/<path>.json  the Output of a successful answer:
 *                            hns/get/globals/version.json, hns/get/endpoints.json,
 *                            hns/get/endpointstats/<guid>.json
 *    hns/<method>/<path>.raw the whole answer, verbatim
 *    with neither            {"Success":false,"Error":"Element not found. ",…}
 *  Faults, for B any of hcn/T, hcn/T/<guid>, hcn/T/<guid>.query, hns/<m>/<p>
 *    B.hr      HRESULT in hex that is returned instead (80070005, 803B0002)
 *    B.result  the error record (HCN only)
 *    B.delay   milliseconds to wait first
 *  calls.log   every call is appended if the file exists; for handles with the
 *              number that are open after it.
 *
 *  %SIMHNS_HIDE% makes something missing from the start of the process: the name
 *  of a DLL ("vmcompute.dll") fails its loading, that of an export hides it.
 *
 * GUIDs in file names are in lower case. Strings are CoTaskMemAlloc'ed for the
 * caller to free.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <objbase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ctype.h>

#define API __declspec(dllexport) HRESULT WINAPI
#define E_EP_NOT_FOUND 0x803B0002u
#define E_NW_NOT_FOUND 0x803B0001u
#define E_ELEM_NOT_FOUND 0x80070490u

static int base(char *out, size_t n, const char *rel)
{
    char d[MAX_PATH * 2]; /* GetEnvironmentVariable, not getenv: sees os.Setenv of the host process */
    DWORD l = GetEnvironmentVariableA("SIMHNS_DIR", d, sizeof d);
    if (!l) { /* Wine's services have an environment of their own */
        HANDLE h = CreateFileA("C:\\simhns.dir", GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
        if (h != INVALID_HANDLE_VALUE) {
            if (!ReadFile(h, d, sizeof d - 1, &l, NULL)) l = 0;
            d[l] = 0;
            CloseHandle(h);
        }
    }
    if (!l || l >= sizeof d) return 0;
    snprintf(out, n, "%s%s\\%s", d[0] == '/' ? "Z:" : "", d, rel);
    for (char *p = out; *p; p++) if (*p == '/') *p = '\\';
    return 1;
}

static char *slurp(const char *rel, const char *ext)
{
    char r[1024], p[2048];
    snprintf(r, sizeof r, "%s%s", rel, ext);
    if (!base(p, sizeof p, r)) return NULL;
    HANDLE h = CreateFileA(p, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                           NULL, OPEN_EXISTING, 0, NULL);
    if (h == INVALID_HANDLE_VALUE) return NULL;
    DWORD sz = GetFileSize(h, NULL), got = 0;
    char *b = malloc((size_t)sz + 1);
    if (b && !ReadFile(h, b, sz, &got, NULL)) got = 0;
    CloseHandle(h);
    if (b) b[got] = 0;
    return b;
}

static WCHAR *cotask(const char *s)
{
    int n = MultiByteToWideChar(CP_UTF8, 0, s, -1, NULL, 0);
    WCHAR *w = CoTaskMemAlloc((SIZE_T)n * sizeof(WCHAR));
    if (w) MultiByteToWideChar(CP_UTF8, 0, s, -1, w, n);
    return w;
}

static char *narrow(const WCHAR *w)
{
    if (!w) return _strdup("");
    int n = WideCharToMultiByte(CP_UTF8, 0, w, -1, NULL, 0, NULL, NULL);
    char *s = malloc(n);
    WideCharToMultiByte(CP_UTF8, 0, w, -1, s, n, NULL, NULL);
    return s;
}

static void logcall(const char *what, const char *a, const char *b, HRESULT hr)
{
    char p[2048], line[4096];
    if (!base(p, sizeof p, "calls.log")) return;
    HANDLE h = CreateFileA(p, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                           NULL, OPEN_EXISTING, 0, NULL);
    if (h == INVALID_HANDLE_VALUE) return;
    DWORD w;
    int n = snprintf(line, sizeof line, "%lu %s %s %s 0x%08lx\n", GetCurrentProcessId(), what, a, b, (unsigned long)hr);
    if (n > (int)sizeof line - 1) n = sizeof line - 1;
    /* Wine appends in two steps: one writer at a time, of all processes. */
    HANDLE m = CreateMutexA(NULL, FALSE, "simhns-calls.log");
    WaitForSingleObject(m, INFINITE);
    WriteFile(h, line, n, &w, NULL);
    ReleaseMutex(m);
    CloseHandle(m);
    CloseHandle(h);
}

/* scripted delay / result / HRESULT for base name rel; returns S_OK to go on */
static HRESULT fault(const char *rel, PWSTR *result)
{
    HRESULT hr = S_OK;
    char *s;
    if ((s = slurp(rel, ".delay"))) { Sleep(atoi(s)); free(s); }
    if (result && (s = slurp(rel, ".result"))) { *result = cotask(s); free(s); }
    if ((s = slurp(rel, ".hr"))) { hr = (HRESULT)strtoul(s, NULL, 16); free(s); }
    return hr;
}

__declspec(dllexport) const char SimulatedHNS[] = "simulated Host Networking Service, not Windows";

#ifdef SIM_HNS
#define SELF "vmcompute.dll"
#else
#define SELF "computenetwork.dll"
#endif

/* Takes an export's name out of this DLL's export table, as if it weren't there. */
static void hide(HINSTANCE self, const char *name)
{
    BYTE *base = (BYTE *)self;
    IMAGE_NT_HEADERS *nt = (IMAGE_NT_HEADERS *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    IMAGE_EXPORT_DIRECTORY *dir = (IMAGE_EXPORT_DIRECTORY *)(base +
        nt->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT].VirtualAddress);
    DWORD *names = (DWORD *)(base + dir->AddressOfNames), old;
    for (DWORD i = 0; i < dir->NumberOfNames; i++) {
        char *n = (char *)(base + names[i]);
        size_t l = strlen(n);
        if (strcmp(n, name) || !VirtualProtect(n, l, PAGE_READWRITE, &old)) continue;
        n[l - 1] = '!';
        VirtualProtect(n, l, old, &old);
    }
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, LPVOID reserved)
{
    char name[128];
    DWORD l;
    (void)reserved;
    if (reason != DLL_PROCESS_ATTACH) return TRUE;
    l = GetEnvironmentVariableA("SIMHNS_HIDE", name, sizeof name);
    if (!l || l >= sizeof name) return TRUE;
    if (!_stricmp(name, SELF)) return FALSE;
    hide(self, name);
    return TRUE;
}

#ifdef SIM_HNS
API HNSCall(PCWSTR method, PCWSTR path, PCWSTR object, PWSTR *response)
{
    char *m = narrow(method), *p = narrow(path), *o = narrow(object), rel[1024], *s;
    size_t n;
    *response = NULL;
    n = (size_t)snprintf(rel, sizeof rel, "hns/%s/%s", m, p[0] == '/' ? p + 1 : p);
    if (n >= sizeof rel) n = sizeof rel - 1;
    while (n && rel[n - 1] == '/') rel[--n] = 0;
    for (char *c = rel; *c; c++) *c = (char)tolower((unsigned char)*c);
    HRESULT hr = fault(rel, NULL);
    if (hr >= 0) {
        if ((s = slurp(rel, ".raw"))) {
            *response = cotask(s);
        } else if ((s = slurp(rel, ".json"))) {
            char *e = malloc(strlen(s) + 64);
            sprintf(e, "{\"Success\":true,\"Output\":%s}", s);
            *response = cotask(e);
            free(e);
        } else {
            *response = cotask("{\"Success\":false,\"Error\":\"Element not found. \",\"ErrorCode\":2147943568}");
        }
        free(s);
    }
    logcall(m, p, o, hr);
    free(m); free(p); free(o);
    return hr;
}
#endif

#ifdef SIM_HCN
typedef struct { DWORD magic; const char *type; char rel[128]; } obj;
#define MAGIC 0x534e4348u
static LONG open_handles;

static void guidrel(char *out, size_t n, const char *type, const GUID *g)
{
    snprintf(out, n, "hcn/%s/%08lx-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", type,
             (unsigned long)g->Data1, g->Data2, g->Data3, g->Data4[0], g->Data4[1], g->Data4[2],
             g->Data4[3], g->Data4[4], g->Data4[5], g->Data4[6], g->Data4[7]);
}

static const char *ws(const char *p) { while (*p && isspace((unsigned char)*p)) p++; return p; }

/* does the JSON text hold  "key" : val  (val as written, strings compared without case) */
static int has(const char *json, const char *key, const char *val)
{
    char q[160];
    snprintf(q, sizeof q, "\"%s\"", key);
    for (const char *p = json; (p = strstr(p, q)); ) {
        p = ws(p + strlen(q));
        if (*p != ':') continue;
        p = ws(p + 1);
        size_t l = strlen(val);
        if (!_strnicmp(p, val, l) && (val[0] == '"' || !isalnum((unsigned char)p[l]))) return 1;
    }
    return 0;
}

/* query = {"SchemaVersion":..,"Flags":..,"Filter":"{\"State\":3}"} */
static int matches(const char *query, const char *json)
{
    const char *p = strstr(query, "\"Filter\"");
    char f[1024];
    size_t n = 0;
    if (!p || !(p = strchr(p + 8, '"'))) return 1;
    for (p++; *p && *p != '"' && n < sizeof f - 1; p++) {
        if (*p == '\\' && p[1]) p++;
        f[n++] = *p;
    }
    f[n] = 0;
    const char *q = strchr(f, '{');
    if (!q) return 1;
    for (q = ws(q + 1); *q == '"'; ) {
        char key[128], val[256];
        size_t k = 0, v = 0;
        for (q++; *q && *q != '"' && k < sizeof key - 1; q++) key[k++] = *q;
        key[k] = 0;
        if (*q) q++;
        q = ws(q);
        if (*q == ':') q = ws(q + 1);
        if (*q == '"') {
            val[v++] = *q++;
            while (*q && *q != '"' && v < sizeof val - 2) val[v++] = *q++;
            val[v++] = '"';
            if (*q) q++;
        } else {
            while (*q && *q != ',' && *q != '}' && v < sizeof val - 1) val[v++] = *q++;
        }
        val[v] = 0;
        if (!strcmp(key, "VirtualNetwork")) { if (!has(json, "HostComputeNetwork", val)) return 0; }
        else if (!has(json, key, val)) return 0;
        q = ws(q);
        if (*q == ',') q = ws(q + 1);
    }
    return 1;
}

static HRESULT do_enum(const char *type, PCWSTR query, PWSTR *out, PWSTR *result)
{
    char rel[64], pat[2048], *s, *q = narrow(query);
    snprintf(rel, sizeof rel, "hcn/%s", type);
    *out = NULL;
    if (result) *result = NULL;
    HRESULT hr = fault(rel, result);
    if (hr >= 0) {
        if ((s = slurp(rel, ".json"))) { *out = cotask(s); free(s); }
        else {
            size_t cap = 64, len = 1;
            char *b = malloc(cap);
            strcpy(b, "[");
            char r2[128];
            snprintf(r2, sizeof r2, "%s/*.json", rel);
            WIN32_FIND_DATAA fd;
            HANDLE h = base(pat, sizeof pat, r2) ? FindFirstFileA(pat, &fd) : INVALID_HANDLE_VALUE;
            if (h != INVALID_HANDLE_VALUE) {
                do {
                    char id[64], r3[192];
                    snprintf(id, sizeof id, "%.36s", fd.cFileName);
                    snprintf(r3, sizeof r3, "%s/%s", rel, id);
                    char *j = slurp(r3, ".json");
                    if (j && matches(q, j)) {
                        while (len + 44 > cap) b = realloc(b, cap *= 2);
                        len += (size_t)sprintf(b + len, "%s\"%s\"", len > 1 ? "," : "", id);
                    }
                    free(j);
                } while (FindNextFileA(h, &fd));
                FindClose(h);
            }
            strcpy(b + len, "]");
            *out = cotask(b);
            free(b);
        }
    }
    char w[64];
    snprintf(w, sizeof w, "enumerate %s", type);
    logcall(w, q, "", hr);
    free(q);
    return hr;
}

static HRESULT do_open(const char *type, const GUID *id, void **h, PWSTR *result)
{
    char rel[128];
    *h = NULL;
    if (result) *result = NULL;
    guidrel(rel, sizeof rel, type, id);
    HRESULT hr = fault(rel, result);
    if (hr >= 0) {
        char *s = slurp(rel, ".json");
        if (!s) {
            hr = !strcmp(type, "endpoints") ? (HRESULT)E_EP_NOT_FOUND
               : !strcmp(type, "networks") ? (HRESULT)E_NW_NOT_FOUND : (HRESULT)E_ELEM_NOT_FOUND;
            if (result) *result = cotask(hr == (HRESULT)E_EP_NOT_FOUND
                ? "{\"Success\":false,\"Error\":\"The specified endpoint could not be found. \",\"ErrorCode\":2151350274}"
                : "{\"Success\":false,\"Error\":\"Element not found. \",\"ErrorCode\":2147943568}");
        } else {
            free(s);
            obj *o = calloc(1, sizeof *o);
            o->magic = MAGIC; o->type = type; strcpy(o->rel, rel);
            *h = o;
            InterlockedIncrement(&open_handles);
        }
    }
    logcall("open", rel, "", hr);
    return hr;
}

static HRESULT do_query(const char *type, void *h, PCWSTR query, PWSTR *props, PWSTR *result)
{
    obj *o = h;
    char rel[160], *s;
    (void)query;
    *props = NULL;
    if (result) *result = NULL;
    if (!o || o->magic != MAGIC || strcmp(o->type, type)) return E_HANDLE;
    snprintf(rel, sizeof rel, "%s.query", o->rel);
    HRESULT hr = fault(rel, result);
    if (hr >= 0) {
        if ((s = slurp(o->rel, ".json"))) { *props = cotask(s); free(s); }
        else hr = (HRESULT)E_ELEM_NOT_FOUND;
    }
    logcall("query", o->rel, "", hr);
    return hr;
}

static HRESULT do_close(const char *type, void *h)
{
    obj *o = h;
    char n[32];
    if (!o || o->magic != MAGIC || strcmp(o->type, type)) return E_HANDLE;
    o->magic = 0;
    snprintf(n, sizeof n, "open=%ld", InterlockedDecrement(&open_handles));
    logcall("close", o->rel, n, S_OK);
    free(o);
    return S_OK;
}

/* HcnCreateEndpoint takes the network handle first; the others do not. */
#define KIND(One, Many, dir)                                                                      \
API HcnEnumerate##Many(PCWSTR q, PWSTR *out, PWSTR *res) { return do_enum(dir, q, out, res); }    \
API HcnOpen##One(REFGUID id, void **h, PWSTR *res) { return do_open(dir, id, h, res); }           \
API HcnQuery##One##Properties(void *h, PCWSTR q, PWSTR *p, PWSTR *res) { return do_query(dir, h, q, p, res); } \
API HcnClose##One(void *h) { return do_close(dir, h); }                                           \
API HcnModify##One(void *h, PCWSTR s, PWSTR *res) { if (res) *res = NULL; logcall("modify", dir, "", E_NOTIMPL); return E_NOTIMPL; } \
API HcnDelete##One(REFGUID id, PWSTR *res) { if (res) *res = NULL; logcall("delete", dir, "", E_NOTIMPL); return E_NOTIMPL; }
#define CREATE(One, dir)                                                                          \
API HcnCreate##One(REFGUID id, PCWSTR s, void **h, PWSTR *res) { if (res) *res = NULL; logcall("create", dir, "", E_NOTIMPL); return E_NOTIMPL; }

KIND(Network, Networks, "networks")
KIND(Endpoint, Endpoints, "endpoints")
KIND(Namespace, Namespaces, "namespaces")
KIND(LoadBalancer, LoadBalancers, "loadbalancers")
KIND(SdnRoute, SdnRoutes, "routes")
CREATE(Network, "networks")
CREATE(Namespace, "namespaces")
CREATE(LoadBalancer, "loadbalancers")
CREATE(SdnRoute, "routes")
API HcnCreateEndpoint(void *nw, REFGUID id, PCWSTR s, void **h, PWSTR *res) { if (res) *res = NULL; logcall("create", "endpoints", "", E_NOTIMPL); return E_NOTIMPL; }
#endif
